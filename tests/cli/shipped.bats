#!/usr/bin/env bats
# The plans in profiles/plans: they import whole, and every one is found by its shape, without a GPU.

load common

@test "every shipped plan is looked up by its shape" {
  local file n=0
  for file in profiles/plans/*.jsonl; do
    expect 0 import "$file" --json
    [ "$(jq .flagged <<<"$output")" -eq 0 ]
  done
  expect 0 show --json
  local plans=$output
  while IFS=$'\t' read -r problem device us library_us winner; do
    read -r kind m n k l dtype act <<<"$(sed -E 's/ [mnkl]=/ /g; s/(dtype|act)=//g' <<<"$problem")"
    expect 0 lookup --kind "$kind" --m "$m" --n "$n" --k "$k" --l "$l" --dtype "$dtype" \
      --act "$act" --device "$device" --json
    [ "$(jq -r .tier <<<"$output")" = exact ]
    [ "$(jq -r .provenance <<<"$output")" = measured ]
    [ "$(jq .measured_us <<<"$output")" = "$us" ]
    [ "$(jq .library_us <<<"$output")" = "$library_us" ]
    [ "$(jq -r .kernel.name <<<"$output")" = "$winner" ]
    n=$((n + 1))
  done < <(jq -r '.plans[] | [.problem, .device, .measured_us, .library_us, .kernel.name] | @tsv' \
    <<<"$plans")
  [ "$n" -ge 18 ]
}

@test "a shipped export is byte for byte what the database would export" {
  local file
  for file in profiles/plans/*.jsonl; do
    rm -f "$FUSEPLAN_DB"
    expect 0 import "$file"
    expect 0 export -o "$scratch/again.jsonl"
    cmp "$file" "$scratch/again.jsonl"
  done
}
