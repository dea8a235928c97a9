"use strict";
// Sorting and filtering of the table; without this script the page shows the same, in one order.
//
// The fragment holds what is shown: #sort=speedup&order=down&filter=gated_ffn. A fragment #plan-N,
// the plot's link to a plan, opens that plan.
(() => {
  const table = document.getElementById("plans");
  const heads = [...table.tHead.rows[0].cells];
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const plans = [...table.tBodies].map((body) => ({
    body,
    point: document.querySelector(`svg a[href="#${body.id}"]`),
    values: new Map(heads.map((head, i) => [head.dataset.key, valueOf(head, body.rows[0].cells[i])])),
    words: body.rows[0].textContent.toLowerCase() + " " +
      body.querySelector("summary").textContent.toLowerCase(),
  }));
  const state = { sort: "", order: "" };

  // A number, a word, or null where nothing was measured.
  function valueOf(head, cell) {
    if (head.classList.contains("number"))
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    return cell.textContent.toLowerCase();
  }

  // What was not measured comes last, in either order.
  function compare(a, b, sign) {
    if (a === null || b === null)
      return (a === null) - (b === null);
    return a < b ? -sign : a > b ? sign : 0;
  }

  function sort() {
    const head = heads.find((one) => one.dataset.key === state.sort);
    for (const one of heads)
      one.removeAttribute("aria-sort");
    if (!head)
      return;
    const isDown = (state.order || head.dataset.first) === "down";
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const sorted = [...plans].sort((a, b) =>
      compare(a.values.get(state.sort), b.values.get(state.sort), isDown ? -1 : 1));
    table.append(...sorted.map((plan) => plan.body));
  }

  // "speedup>1.2" is a condition on a column; all else is a word.
  function condition(text) {
    const parts = /^([a-z]+)(<=|>=|=|<|>)(.+)$/.exec(text);
    const head = parts && heads.find((one) => one.dataset.key === parts[1]);
    if (!head)
      return (plan) => plan.words.includes(text);
    const isNumber = head.classList.contains("number");
    const wanted = isNumber ? Number(parts[3]) : parts[3];
    return (plan) => {
      const value = plan.values.get(parts[1]);
      if (value === null)
        return false;
      switch (parts[2]) {
        case "<": return value < wanted;
        case "<=": return value <= wanted;
        case ">": return value > wanted;
        case ">=": return value >= wanted;
        default: return value === wanted;
      }
    };
  }

  function show() {
    const conditions = filter.value.toLowerCase().split(/\s+/).filter(Boolean).map(condition);
    let shown = 0;
    for (const plan of plans) {
      const isShown = conditions.every((holds) => holds(plan));
      plan.body.hidden = !isShown;
      plan.point?.toggleAttribute("hidden", !isShown);
      shown += isShown;
    }
    count.textContent = `${shown} of ${plans.length} plans`;
  }

  function writeFragment() {
    const parts = new URLSearchParams();
    if (state.sort)
      parts.set("sort", state.sort);
    if (state.order)
      parts.set("order", state.order);
    if (filter.value)
      parts.set("filter", filter.value);
    history.replaceState(null, "", "#" + parts);
  }

  function readFragment() {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.tagName === "TBODY") {
      target.querySelector("details").open = true;
      target.scrollIntoView();
    } else {
      const parts = new URLSearchParams(location.hash.slice(1));
      state.sort = parts.get("sort") ?? "";
      state.order = parts.get("order") ?? "";
      filter.value = parts.get("filter") ?? "";
      sort();
    }
    show();
  }

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      state.sort = head.dataset.key;
      state.order = now ? (now === "ascending" ? "down" : "up") : head.dataset.first;
      sort();
      writeFragment();
    });
  }
  filter.addEventListener("input", () => {
    show();
    writeFragment();
  });
  addEventListener("hashchange", readFragment);
  document.getElementById("tools").hidden = false;
  readFragment();
})();
