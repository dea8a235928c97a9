#include "tuner/base/hash.h"

#include <sha2.h>
#include <stdint.h>
#include <string.h>

static void to_hex(const uint8_t *digest, size_t n_bytes, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n_bytes; i++) {
    out[2 * i] = digits[digest[i] >> 4];
    out[2 * i + 1] = digits[digest[i] & 15];
  }
  out[2 * n_bytes] = '\0';
}

void fpl_hash_hex(const struct fpl_hash_piece *pieces, size_t n_pieces, char out[FPL_HASH_HEX]) {
  SHA2_CTX context;
  SHA256Init(&context);
  for (size_t i = 0; i < n_pieces; i++) {
    uint8_t length[8];
    for (int b = 0; b < 8; b++)
      length[b] = (uint8_t)((uint64_t)pieces[i].length >> (8 * b));
    SHA256Update(&context, length, sizeof length);
    SHA256Update(&context, pieces[i].bytes, pieces[i].length);
  }
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256Final(digest, &context);
  to_hex(digest, sizeof digest, out);
}

void fpl_hash_bytes_hex(const void *bytes, size_t length, char out[FPL_HASH_HEX]) {
  SHA2_CTX context;
  SHA256Init(&context);
  SHA256Update(&context, bytes, length);
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256Final(digest, &context);
  to_hex(digest, sizeof digest, out);
}

void fpl_hash_key(const char *text, char out[FPL_KEY_HEX]) {
  char full[FPL_HASH_HEX];
  fpl_hash_bytes_hex(text, strlen(text), full);
  memcpy(out, full, FPL_KEY_HEX - 1);
  out[FPL_KEY_HEX - 1] = '\0';
}
