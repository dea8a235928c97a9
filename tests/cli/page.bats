#!/usr/bin/env bats
# The page of plans (`show --html`): its text, and what a browser makes of it.
load common

# The shipped plans as a database and as a page; made once a file.
shipped_page() {
  shipped=$BATS_FILE_TMPDIR/shipped.db page=$BATS_FILE_TMPDIR/shipped.html
  [ -e "$page" ] && return
  local file
  for file in profiles/plans/*.jsonl; do
    "$fuseplan" import "$file" --db "$shipped"
  done
  "$fuseplan" show --db "$shipped" --html "$page"
}

# Texts that would run or load something if they were not escaped, wherever a text can stand.
hostile_page() {
  local bad='</td><script>document.title="ran"</script><img src=x onerror=document.title=1>&"'
  shipped_page
  hostile=$scratch/hostile.html
  cp "$shipped" "$scratch/hostile.db"
  sqlite3 "$scratch/hostile.db" "UPDATE plans SET reason = '$bad';
    UPDATE kernels SET name = '<b onclick=1>' || id, family = '<i>&'';';
    UPDATE device_classes SET name = '\"><script>alert(1)</script>';
    UPDATE environment_fields SET value = char(1) || '$bad' WHERE name = 'driver';"
  "$fuseplan" show --db "$scratch/hostile.db" --html "$hostile"
}

# What the browser made of a page after its script ran, in $dom; it must not complain.
browse() { # PAGE#FRAGMENT OPTIONS...
  local url=file://$1
  shift
  dom=$scratch/dom.html
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --hide-scrollbars --user-data-dir="$BATS_FILE_TMPDIR/browser" --enable-logging=stderr \
    --virtual-time-budget=2000 "$@" "$url" >"$dom" 2>"$scratch/browser.log" || {
    tail -n 20 "$scratch/browser.log"
    return 1
  }
  if grep CONSOLE "$scratch/browser.log"; then return 1; fi
}

needs_browser() {
  browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    skip "no Chromium here: tools/setup.sh browser installs it"
}

# A column of the rows shown, by its key in the page's heads.
column() { # KEY FILE
  local n
  n=$(grep -oE 'data-key="[a-z]+"' "$2" | grep -n "\"$1\"" | cut -d: -f1)
  tests/cli/page.py rows "$2" | cut -f "$n"
}

@test "the page is whole: tags in balance, every link inside, one row a plan" {
  shipped_page
  tests/cli/page.py check "$page"
  expect 0 show --db "$shipped" --json
  [ "$(tests/cli/page.py rows "$page" | wc -l)" -eq "$(jq '.plans | length' <<<"$output")" ]
  jq -r '.plans[].measured_us' <<<"$output" | awk '{ printf "%.2f\n", $1 }' | sort >"$scratch/wanted"
  column cold "$page" | sort | diff "$scratch/wanted" -
}

@test "without a script the rows stand by speed-up and the plot holds every measured plan" {
  shipped_page
  column speedup "$page" | sort -c -g -r
  [ "$(grep -c '<a href="#plan-' "$page")" -eq "$(column cold "$page" | grep -vc '^-')" ]
  grep -q 'class="floor"' "$page"
}

@test "the check of the page finds what it looks for" {
  shipped_page
  local edit
  for edit in 's,</thead>,,' 's,<tbody id="plan-[0-9]*",<tbody id="plan",' 's,href="#plan-.*",href="http://a/",' \
    's,<th scope="row">,<th>,' 's,</td></tr>,</td><td>1</td></tr>,' 's,<h1>,<h1 onclick="1">,'; do
    sed "$edit" "$page" >"$scratch/edited.html"
    run tests/cli/page.py check "$scratch/edited.html"
    [ "$status" -eq 1 ]
  done
}

@test "tidy finds no error in the page" {
  command -v tidy >/dev/null || skip "no tidy here: tools/setup.sh browser installs it"
  shipped_page
  # It does not know links inside SVG, and warns of nothing else.
  run tidy -quiet -errors "$page"
  [ "$(grep -vc 'Warning: <a> proprietary attribute "href"' <<<"$output")" -eq 0 ]
}

@test "the page holds plans that were never measured, and none at all" {
  small_database
  expect 0 show --html "$scratch/page.html" --json
  [ "$(jq -r .file <<<"$output")" = "$scratch/page.html" ]
  jq -e '.plans == 1' <<<"$output"
  [ "$(jq .bytes <<<"$output")" -eq "$(wc -c <"$scratch/page.html")" ]
  tests/cli/page.py check "$scratch/page.html"
  [ "$(column cold "$scratch/page.html")" = - ]
  grep -q 'No plot' "$scratch/page.html"
  sqlite3 "$FUSEPLAN_DB" 'DELETE FROM plans'
  expect 0 show --html "$scratch/none.html"
  tests/cli/page.py check "$scratch/none.html"
  grep -q '<p>0 plans</p>' "$scratch/none.html"
}

@test "times that no axis can hold leave the rest of the page whole" {
  shipped_page
  cp "$shipped" "$scratch/odd.db"
  sqlite3 "$scratch/odd.db" 'UPDATE plans SET measured_us = 1e-320 WHERE id % 3 = 0;
    UPDATE plans SET measured_us = 9e999, library_us = 9e999, created_unix = 9e18 WHERE id % 3 = 1'
  timeout 10 "$fuseplan" show --db "$scratch/odd.db" --html "$scratch/odd.html"
  tests/cli/page.py check "$scratch/odd.html"
  [ "$(grep -c '<a href="#plan-' "$scratch/odd.html")" -eq "$(sqlite3 "$scratch/odd.db" \
    'SELECT count(*) FROM answers WHERE id % 3 = 2')" ]
}

@test "the page goes to stdout too, the same bytes every time" {
  shipped_page
  "$fuseplan" show --db "$shipped" --html - | cmp - "$page"
}

@test "without device profiles the page has no floors, and says so" {
  shipped_page
  FUSEPLAN_PROFILES=$scratch/none expect 0 show --db "$shipped" --html "$scratch/page.html"
  [[ $stderr == *'without floors'* ]]
  tests/cli/page.py check "$scratch/page.html"
  [ "$(column floor "$scratch/page.html" | sort -u)" = - ]
}

@test "refuses a page of candidates, and a page and JSON on one stdout: exit 2" {
  shipped_page
  expect 2 show --db "$shipped" --html "$scratch/page.html" --problem 1
  one_line_error
  [ ! -e "$scratch/page.html" ]
  expect 2 show --db "$shipped" --html - --json
  one_line_error
}

@test "a page that cannot be written is one line, and leaves what was there" {
  shipped_page
  expect 3 show --db "$shipped" --html "$scratch/none/page.html"
  one_line_error
}

@test "hostile texts are escaped" {
  hostile_page
  tests/cli/page.py check "$hostile"
  [ "$(grep -c '<script' "$hostile")" -eq 1 ]
  run ! grep -qE '<(img|b|i)[ >]' "$hostile"
  grep -q '&lt;script&gt;document.title=&quot;ran&quot;' "$hostile"
}

@test "browser: the page renders without a complaint, its script at work" {
  needs_browser
  shipped_page
  browse "$page" --dump-dom
  tests/cli/page.py check "$dom"
  [ "$(tests/cli/page.py rows "$dom" | wc -l)" -eq "$(tests/cli/page.py rows "$page" | wc -l)" ]
  [ -z "$(tests/cli/page.py sorted "$dom")" ]
  run ! grep -q 'id="tools"[^>]* hidden' "$dom"
}

@test "browser: the fragment sorts, in both directions, and what is missing comes last" {
  needs_browser
  shipped_page
  browse "$page#sort=speedup" --dump-dom
  [ "$(tests/cli/page.py sorted "$dom")" = 'speedup descending' ]
  column speedup "$dom" | sort -c -g -r
  browse "$page#sort=cold&order=down" --dump-dom
  [ "$(tests/cli/page.py sorted "$dom")" = 'cold descending' ]
  column cold "$dom" | sort -c -g -r
  # As text it would be another order.
  column cold "$dom" >"$scratch/cold"
  run ! sort -c -r "$scratch/cold"
  cp "$shipped" "$scratch/some.db"
  sqlite3 "$scratch/some.db" 'UPDATE plans SET measured_hot_us = 0 WHERE id % 3 = 0'
  "$fuseplan" show --db "$scratch/some.db" --html "$scratch/some.html"
  browse "$scratch/some.html#sort=hot" --dump-dom
  column hot "$dom" | sed 's/^-$/inf/' | sort -c -g
  column hot "$dom" | tail -n 1 | grep -qx -e -
}

@test "browser: the filter takes words and conditions, and hides the points too" {
  needs_browser
  shipped_page
  local n
  n=$(column kind "$page" | grep -c gated_ffn)
  browse "$page#filter=gated_ffn" --dump-dom
  [ "$(column kind "$dom" | sort | uniq -c | xargs)" = "$n gated_ffn" ]
  [ "$(grep -c '<a href="#plan-' "$dom")" -eq "$((n + $(grep -c '<a href="#plan-[0-9]*" hidden' "$dom")))" ]
  grep -q "$n of $(column kind "$page" | wc -l) plans" "$dom"
  browse "$page#filter=winner%3Dlibrary+n%3E%3D8192" --dump-dom
  [ "$(column winner "$dom" | sort -u)" = library ]
  [ "$(column n "$dom" | sort -n | head -n 1)" -ge 8192 ]
  browse "$page#filter=nothing-like-it" --dump-dom
  [ "$(tests/cli/page.py rows "$dom" | wc -l)" -eq 0 ]
}

@test "browser: a head is a button that sorts and turns, and a point opens its plan" {
  needs_browser
  shipped_page
  # The same page with one script more, which does what a reader does.
  acting() {
    sed "s|</body>|<script>$1</script></body>|" "$page" >"$scratch/acting.html"
  }
  acting 'const b = document.querySelector("th[data-key=n] button"); b.focus(); b.click(); b.click();'
  browse "$scratch/acting.html" --dump-dom
  [ "$(tests/cli/page.py sorted "$dom")" = 'n descending' ]
  column n "$dom" | sort -c -n -r
  local type='const f = document.getElementById("filter"); f.value = "gated_ffn"; '
  acting "$type"'f.dispatchEvent(new Event("input")); document.title = location.hash;'
  browse "$scratch/acting.html" --dump-dom
  grep -q '<title>#filter=gated_ffn</title>' "$dom"
  local plan
  plan=$(grep -o 'href="#plan-[0-9]*"' "$page" | head -n 3 | tail -n 1 | grep -o 'plan-[0-9]*')
  browse "$page#$plan" --dump-dom
  [ "$(grep -c '<details open' "$dom")" -eq 1 ]
  [ "$(sed -n "/<tbody id=\"$plan\"/,/<\/tbody>/p" "$dom" | grep -c '<details open')" -eq 1 ]
}

@test "browser: hostile texts are shown, not run" {
  needs_browser
  hostile_page
  browse "$hostile" --dump-dom
  grep -q '<title>fuseplan: plans</title>' "$dom"
  [ "$(grep -c '<script' "$dom")" -eq 1 ]
  tests/cli/page.py check "$dom"
}

@test "browser: 1280 pixels show the page, light and dark" {
  needs_browser
  shipped_page
  browse "$page" --window-size=1280,900 --screenshot="$scratch/light.png" \
    --blink-settings=preferredColorScheme=1
  browse "$page" --window-size=1280,900 --screenshot="$scratch/dark.png" \
    --blink-settings=preferredColorScheme=0
  read -r width height n_colours light < <(tests/cli/page.py image "$scratch/light.png")
  [ "$width $height" = '1280 900' ]
  [ "$n_colours" -gt 20 ]
  [ "$light" -gt 200 ]
  read -r width height n_colours dark < <(tests/cli/page.py image "$scratch/dark.png")
  [ "$n_colours" -gt 20 ]
  [ "$dark" -lt 60 ]
  # At this width nothing is cut off.
  sed 's,</body>,<script>document.title = document.documentElement.scrollWidth</script></body>,' "$page" \
    >"$scratch/width.html"
  browse "$scratch/width.html" --window-size=1280,900 --dump-dom
  [ "$(sed -n 's,.*<title>\([0-9]*\)</title>.*,\1,p' "$dom")" -le 1280 ]
}
