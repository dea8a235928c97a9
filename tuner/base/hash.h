/* Content hashes: SHA-256 (libmd), in hex. Stable across machines and versions. */
#ifndef FPL_BASE_HASH_H
#define FPL_BASE_HASH_H

#include <stddef.h>

enum { FPL_HASH_HEX = 65, FPL_KEY_HEX = 33 }; /* characters, with the closing NUL */

/* Hashes several pieces as one; a piece's length is part of what is hashed, so that moving a
 * boundary changes the hash. */
struct fpl_hash_piece {
  const void *bytes;
  size_t length;
};
void fpl_hash_hex(const struct fpl_hash_piece *pieces, size_t n_pieces, char out[FPL_HASH_HEX]);

/* SHA-256 of the bytes alone, as `sha256sum` prints it. */
void fpl_hash_bytes_hex(const void *bytes, size_t length, char out[FPL_HASH_HEX]);

/* First 128 bits of the text's SHA-256: the key of a problem, a schedule, a device class. */
void fpl_hash_key(const char *text, char out[FPL_KEY_HEX]);

#endif
