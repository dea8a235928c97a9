#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/hash.h"

#include <string.h>

/* Source of the digests: FIPS 180-2, appendix B, and of the empty text sha256sum. */
static void agrees_with_published_digests(void **state) {
  (void)state;
  char hex[FPL_HASH_HEX];
  fpl_hash_bytes_hex("abc", 3, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  fpl_hash_bytes_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
  assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  fpl_hash_bytes_hex("", 0, hex);
  assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void takes_the_first_half_as_key(void **state) {
  (void)state;
  char key[FPL_KEY_HEX];
  fpl_hash_key("abc", key);
  assert_string_equal(key, "ba7816bf8f01cfea414140de5dae2223");
}

static void tells_pieces_apart_by_their_boundaries(void **state) {
  (void)state;
  const struct fpl_hash_piece early[] = {{"a", 1}, {"bc", 2}};
  const struct fpl_hash_piece late[] = {{"ab", 2}, {"c", 1}};
  const struct fpl_hash_piece more[] = {{"a", 1}, {"bc", 2}, {"", 0}};
  char hex[3][FPL_HASH_HEX];
  char again[FPL_HASH_HEX];
  fpl_hash_hex(early, 2, hex[0]);
  fpl_hash_hex(late, 2, hex[1]);
  fpl_hash_hex(more, 3, hex[2]);
  assert_string_not_equal(hex[0], hex[1]);
  assert_string_not_equal(hex[0], hex[2]);
  assert_string_not_equal(hex[1], hex[2]);
  fpl_hash_hex(early, 2, again);
  assert_string_equal(hex[0], again);
}

/* Lengths are hashed as 8 bytes, little-endian: keys are the same on every machine. */
static void hashes_pieces_as_length_then_bytes(void **state) {
  (void)state;
  const struct fpl_hash_piece pieces[] = {{"abc", 3}, {"d", 1}};
  static const char flat[] = "\3\0\0\0\0\0\0\0abc\1\0\0\0\0\0\0\0d";
  char hex[FPL_HASH_HEX];
  char wanted[FPL_HASH_HEX];
  fpl_hash_hex(pieces, 2, hex);
  fpl_hash_bytes_hex(flat, sizeof flat - 1, wanted);
  assert_string_equal(hex, wanted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_published_digests),
      cmocka_unit_test(takes_the_first_half_as_key),
      cmocka_unit_test(tells_pieces_apart_by_their_boundaries),
      cmocka_unit_test(hashes_pieces_as_length_then_bytes),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
