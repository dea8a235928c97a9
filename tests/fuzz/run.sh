#!/usr/bin/env bash
# Each fuzz target over its corpus, by the regression driver: fuzz_NAME over tests/fuzz/corpus/NAME.
# Prints TAP. BUILD may be set.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

targets=(tests/fuzz/fuzz_*.c)
echo "1..${#targets[@]}"
number=0
failed=0
for source in "${targets[@]}"; do
  number=$((number + 1))
  name=$(basename "$source" .c)
  name=${name#fuzz_}
  if output=$("${BUILD:-build}/tests/fuzz/fuzz_$name" "tests/fuzz/corpus/$name" 2>&1); then
    echo "ok $number - fuzz_$name: $output"
  else
    echo "not ok $number - fuzz_$name over tests/fuzz/corpus/$name"
    echo "$output" | tail -n 40 | sed 's/^/# /'
    failed=1
  fi
done
exit "$failed"
