#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tuner/base/arena.h"

#include <string.h>

static void gives_zeroed_aligned_blocks_that_do_not_overlap(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  enum { N = 500 };
  unsigned char *blocks[N];
  for (size_t i = 0; i < N; i++) {
    blocks[i] = fpl_arena_alloc(&arena, i);
    assert_non_null(blocks[i]);
    assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
    for (size_t j = 0; j < i; j++) {
      assert_int_equal(blocks[i][j], 0);
    }
    memset(blocks[i], (int)(i % 251) + 1, i);
  }
  for (size_t i = 0; i < N; i++) {
    for (size_t j = 0; j < i; j++) {
      assert_int_equal(blocks[i][j], i % 251 + 1);
    }
  }
  fpl_arena_free(&arena);
}

static void takes_requests_larger_than_a_chunk(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  const size_t bytes = (size_t)3 << 20;
  char *const small = fpl_arena_alloc(&arena, 8);
  char *const large = fpl_arena_alloc(&arena, bytes);
  assert_non_null(large);
  large[0] = 'x';
  large[bytes - 1] = 'x';
  assert_int_equal(small[0], 0);
  fpl_arena_free(&arena);
}

static void refuses_sizes_that_overflow(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  assert_null(fpl_arena_alloc(&arena, SIZE_MAX));
  assert_null(fpl_arena_alloc(&arena, SIZE_MAX - 32));
  assert_null(fpl_arena_copy(&arena, "x", SIZE_MAX));
  assert_non_null(fpl_arena_alloc(&arena, 1));
  fpl_arena_free(&arena);
}

static void copies_text_with_a_closing_nul(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  char *const copy = fpl_arena_copy(&arena, "abcdef", 3);
  assert_string_equal(copy, "abc");
  assert_string_equal(fpl_arena_copy(&arena, "", 0), "");
  assert_string_equal(fpl_arena_copy(&arena, NULL, 0), "");
  fpl_arena_free(&arena);
}

static void can_be_used_again_after_free(void **state) {
  (void)state;
  struct fpl_arena arena = {0};
  fpl_arena_free(&arena);
  assert_non_null(fpl_arena_alloc(&arena, 10));
  fpl_arena_free(&arena);
  assert_null(arena.chunks);
  assert_non_null(fpl_arena_alloc(&arena, 10));
  fpl_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_zeroed_aligned_blocks_that_do_not_overlap),
      cmocka_unit_test(takes_requests_larger_than_a_chunk),
      cmocka_unit_test(refuses_sizes_that_overflow),
      cmocka_unit_test(copies_text_with_a_closing_nul),
      cmocka_unit_test(can_be_used_again_after_free),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
