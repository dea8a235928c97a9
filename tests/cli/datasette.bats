#!/usr/bin/env bats
# tools/datasette/metadata.json: it names what there is, its queries run, and Datasette serves every page.
load common

metadata=tools/datasette/metadata.json

# The shipped plans, and a problem whose candidates failed, as plans.db; made once a file.
plans_database() {
  plans=$BATS_FILE_TMPDIR/plans.db
  [ -e "$plans" ] && return
  local file
  for file in profiles/plans/*.jsonl; do
    "$fuseplan" import "$file" --db "$plans" 2>/dev/null
  done
  sqlite3 "$plans" "UPDATE candidates SET outcome = 'run_timeout', reason = 'killed' WHERE id % 10 = 3
    AND id NOT IN (SELECT candidate_id FROM plans)"
}

names_of() { # TABLE OR VIEW
  sqlite3 "$plans" "SELECT name FROM pragma_table_info('$1')"
}

@test "every table, view and column is described, and none that is not there" {
  plans_database
  sqlite3 "$plans" "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
    AND name NOT LIKE 'sqlite_%' ORDER BY name" >"$scratch/there"
  jq -r '.databases.plans.tables | keys[]' "$metadata" | diff "$scratch/there" -
  jq -e '.databases.plans.tables | all(.[]; (.title | length > 0) and (.description | length > 0))' "$metadata"
  while read -r table; do
    diff <(names_of "$table" | sort) \
      <(jq -r --arg t "$table" '.databases.plans.tables[$t].columns | keys[]' "$metadata" | sort)
  done <"$scratch/there"
}

@test "facets, orders, labels and the columns for reading are columns" {
  plans_database
  local table column n=0
  while IFS=$'\t' read -r table column; do
    names_of "$table" | grep -qx -- "$column" || {
      echo "$table has no $column"
      return 1
    }
    n=$((n + 1))
  done < <(jq -r '.databases.plans.tables | to_entries[] | .key as $t | .value |
    (.facets // [])[], (.sort, .sort_desc, .label_column | values),
    ((.about_url // "") | scan("_col=(\\w+)") | .[]) | [$t, .] | @tsv' "$metadata")
  [ "$n" -gt 50 ]
}

@test "the descriptions are those of db/SCHEMA.md" {
  python3 tools/datasette/describe.py --check
}

@test "every query runs on the shipped plans and finds something" {
  plans_database
  local name sql
  for name in $(jq -r '.databases.plans.queries | keys[]' "$metadata"); do
    sql=$(jq -r --arg q "$name" '.databases.plans.queries[$q].sql' "$metadata")
    sqlite3 -bail -cmd '.parameter init' -cmd ".parameter set :days '0'" \
      -cmd ".parameter set :problem \"'n=3072 k=768'\"" "$plans" "$sql" >"$scratch/rows" || {
      echo "$name does not run"
      return 1
    }
    # Nothing that was shipped is refused.
    [ "$name" = refused_plans ] || [ -s "$scratch/rows" ] || {
      echo "$name finds nothing"
      return 1
    }
  done
}

@test "the best speed-ups are the answers' own" {
  plans_database
  sql=$(jq -r .databases.plans.queries.best_speedups.sql "$metadata")
  expect 0 show --db "$plans" --json
  jq -r '[.plans[].speedup] | sort | reverse | .[] * 1000 | round' <<<"$output" >"$scratch/wanted"
  sqlite3 "$plans" "SELECT CAST(round(speedup * 1000) AS INTEGER) FROM ($sql)" | diff "$scratch/wanted" -
}

@test "Datasette serves every table, view and query" {
  plans_database
  local venv=${BUILD:-build}/datasette
  if [ ! -x "$venv/bin/datasette" ]; then
    rm -rf "$venv"
    # The version for which the metadata is written.
    { timeout 60 python3 -m venv "$venv" && timeout 150 "$venv/bin/pip" install -q 'datasette==0.65.*'; } \
      >"$scratch/pip.log" 2>&1 || {
      rm -rf "$venv"
      skip "pip cannot install datasette here"
    }
  fi
  "$venv/bin/datasette" inspect "$plans" | jq -e '.plans.tables.plans.count > 0'
  "$venv/bin/datasette" "$plans" --metadata "$metadata" --get /plans/best_speedups.json |
    jq -e '.rows | length > 0'
  run --separate-stderr "$venv/bin/python" tests/cli/datasette_pages.py "$plans" "$metadata"
  echo "$output"
  echo "$stderr"
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  [ "${stderr%% *}" -gt 25 ]
}
