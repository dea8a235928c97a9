#!/usr/bin/env bats
# fuseplan merge, diff and history on the plans that come with fuseplan: two runs of one workload.
load common

shape=(--kind gemm_chain --m 128 --n 768 --k 768 --l 768 --dtype f16 --act relu)

first_and_second() {
  local made=$BATS_FILE_TMPDIR
  if [ ! -e "$made/second.db" ]; then
    "$fuseplan" import profiles/plans/h200-paper-first.jsonl --db "$made/first.db" >/dev/null
    "$fuseplan" import profiles/plans/h200-paper.jsonl --db "$made/second.db" >/dev/null
  fi
  cp "$made/first.db" "$made/second.db" "$scratch"
  first=$scratch/first.db second=$scratch/second.db
}

text_of() {
  "$fuseplan" export --cubins --db "$1"
}

@test "merge makes the database, in any order, and merging again adds nothing" {
  first_and_second
  expect 0 merge "$first" "$second" --db "$scratch/forth.db"
  [[ ${lines[-1]} =~ ^[0-9]+\ added,.*\ 36\ plans,.*\ 3\ conflicts$ ]]
  expect 0 merge "$second" "$first" --db "$scratch/back.db"
  cmp <(text_of "$scratch/forth.db") <(text_of "$scratch/back.db")
  expect 0 merge "$first" --db "$scratch/forth.db" --json
  jq -e '.added == 0 and .plans == 0' <<<"$output"
  cmp <(text_of "$scratch/forth.db") <(text_of "$scratch/back.db")
}

@test "merge tells a conflict in a line: both winners, evidence, which answers now and why" {
  first_and_second
  expect 0 merge "$second" --db "$first"
  [[ ${lines[0]} == conflict:*"$first: chain_sm90_"*measured*verified*"$second: chain_sm90_"* ]]
  [[ ${lines[0]} == *"; that of $second answers, it is the newer" ]]
  # Of the other's conflicts, it is ours by now that answers: no winner differs any more.
  expect 0 merge "$second" --db "$first" --json
  jq -e '.conflicts == []' <<<"$output"
}

@test "merge --json names the rule and both answers" {
  first_and_second
  expect 0 merge "$first" --db "$second" --json
  [ "${#lines[@]}" -eq 1 ]
  jq -e '.conflicts | length == 3 and all(.rule == "newer" and (.answers | length) == 2 and
    .answers[0].answers_now and (.answers[1].answers_now | not) and
    .answers[0].created_unix > .answers[1].created_unix)' <<<"$output"
}

@test "merge is all or nothing: a missing, damaged or altered one leaves everything as it was" {
  first_and_second
  before=$(text_of "$first" | sha256sum)
  expect 3 merge "$second" "$scratch/none.db" --db "$first"
  one_line_error
  echo 'not a database, whatever its name may be, and longer than a header' >"$scratch/text.db"
  expect 4 merge "$second" "$scratch/text.db" --db "$first"
  one_line_error
  cp "$first" "$scratch/altered.db"
  sqlite3 "$scratch/altered.db" 'update plans set measured_us = 1'
  expect 3 merge "$second" "$scratch/altered.db" --db "$first"
  one_line_error
  [[ $stderr == *altered.db:*'one was altered'* ]]
  [ "$before" = "$(text_of "$first" | sha256sum)" ]
  expect 3 merge "$scratch/none.db" --db "$scratch/new.db"
  [ ! -e "$scratch/new.db" ]
  expect 2 merge --db "$first"
  one_line_error
}

@test "diff gives a verdict for each problem, and counts" {
  first_and_second
  expect 0 diff "$first" "$second"
  [[ ${lines[0]} == verdict* && ${lines[-1]} == '3 FAST, 1 SLOW, 14 SAME, 0 AMBIGUOUS, 0 ADDED, 0 REMOVED' ]]
  expect 0 diff "$second" "$first" --json
  [ "${#lines[@]}" -eq 1 ]
  jq -e '.counts.FAST == 1 and .counts.SLOW == 3 and (.rows | length) == 18 and
    all(.rows[]; .by == "measured" and .a.cold_low_us <= .a_us)' <<<"$output"
  expect 0 diff "$first" "$second" --least-change 0.5
  [[ ${lines[-1]} != '3 FAST, 1 SLOW,'* ]]
}

@test "diff --fail-on-regression exits with 1 when something is slower or gone" {
  first_and_second
  expect 1 diff "$first" "$second" --fail-on-regression
  [[ $output == *SLOW* ]]
  expect 0 diff "$first" "$second" --fail-on-regression --least-change 20
  small_database
  expect 1 diff "$first" "$FUSEPLAN_DB" --fail-on-regression --json
  jq -e '.counts.REMOVED == 17' <<<"$output"
  expect 0 diff "$first" "$first" --fail-on-regression
}

@test "diff says where predictions were compared" {
  small_database
  expect 0 diff "$FUSEPLAN_DB" "$FUSEPLAN_DB"
  [[ ${lines[1]} == SAME*predicted* && ${lines[-1]} == '1 compared by prediction'* ]]
}

@test "diff refuses what is no percentage, and a missing database" {
  first_and_second
  expect 2 diff "$first" "$second" --least-change many
  one_line_error
  expect 2 diff "$first"
  one_line_error
  expect 4 diff "$first" "$scratch/none.db"
  one_line_error
}

@test "history lists every plan, oldest first, and marks the answer of the time" {
  first_and_second
  "$fuseplan" merge "$first" --db "$second" >/dev/null
  expect 0 history "${shape[@]}" --db "$second"
  [ "${#lines[@]}" -eq 4 ]
  [[ ${lines[2]} == '  2026-11-30T21:21:'*measured*580.159* ]]
  [[ ${lines[3]} == '* 2026-11-30T21:5'*measured*chain_sm90_* ]]
  expect 0 history "${shape[@]}" --db "$second" --as-of 2026-11-30T21:30:00Z
  [[ ${#lines[@]} -eq 3 && ${lines[2]} == '* 2026-11-30T21:21:'* ]]
  expect 0 history "${shape[@]}" --db "$second" --as-of 2026-11-30 --json
  jq -e '[.plans[].is_answer] == [false, true] and .plans[1].nvrtc == "13.0"' <<<"$output"
  expect 1 history "${shape[@]}" --db "$second" --as-of 2026-11-29
  one_line_error
}

@test "history takes an id of show; show goes back as well" {
  first_and_second
  "$fuseplan" merge "$first" --db "$second" >/dev/null
  id=$("$fuseplan" show --db "$second" | sed -n '2s/ .*//p')
  expect 0 history --problem "$id" --db "$second"
  expect 0 show --db "$second" --as-of 2026-11-30T21:30:00 --json
  jq -e '.plans | length == 18 and all(.created_unix < 1796074200)' <<<"$output"
  expect 0 show --db "$second" --as-of 1999-12-31
  [ "$output" = 'no plans' ]
}

@test "history and show refuse what is no date, and a problem given twice or not at all" {
  first_and_second
  for date in 2026-02-29 2026-13-01 2026-1-1 yesterday 2026-12-01T24:00:00 2026-12-01T1 2026-12-01Z; do
    expect 2 history "${shape[@]}" --db "$first" --as-of "$date"
    one_line_error
  done
  expect 2 show --db "$first" --as-of 2026-00-10
  expect 2 history --db "$first"
  one_line_error
  expect 2 history "${shape[@]}" --problem 1 --db "$first"
  expect 1 history --problem 99999 --db "$first"
}

@test "dates are those of the calendar" {
  small_database
  for second in 0 1 951782400 951868799 951868800 1709164800 1709251199 1709251200 4102444799; do
    sqlite3 "$FUSEPLAN_DB" "update plans set created_unix = $second"
    expect 0 history --problem 1 --json
    [ "$(jq -r '.plans[0].created' <<<"$output")" = "$(date -u -d "@$second" +%Y-%m-%dT%H:%M:%SZ)" ]
    expect 0 history --problem 1 --as-of "$(date -u -d "@$second" +%Y-%m-%dT%H:%M:%S)"
    expect 0 history --problem 1 --as-of "$(date -u -d "@$second" +%Y-%m-%d)"
    [ "$second" -eq 0 ] ||
      expect 1 history --problem 1 --as-of "$(date -u -d "@$((second - 1))" +%Y-%m-%dT%H:%M:%SZ)"
  done
}
