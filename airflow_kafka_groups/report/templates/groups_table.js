"use strict";
// The table of all groups: search, sort, filter, pages. It writes text only, never HTML: an id can be any string.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const place = document.getElementById("explorer");
  if (!place || !data.rows.length) return;
  const [ID, STATUS, FAMILY, OWNER, LAG, IDLE, EXPIRES, REASON, CUT] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const PAGE = 100, PRINTED = 1000, MOST_NAMED = 50;
  const UNITS = [[120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "days"]];
  const rows = data.rows;
  // The first clause of a reason with several is about the group alone; what follows is said once for all that share it.
  const clauses = rows.map((row) => (row[REASON].includes("; ") ? row[REASON].split(/; (.*)/s) : ["", row[REASON]]));
  const compare = (x, y) => (x < y ? -1 : x > y ? 1 : 0);
  const distinct = (column) => [...new Set(rows.map((row) => row[column]))].filter((name) => name !== null);
  const [statuses, families, owners] = [STATUS, FAMILY, OWNER].map(distinct);
  const places = new Map(statuses.map((name, n) => [name, n]));
  const first = rows.map((_, n) => n).sort((a, b) => places.get(rows[a][STATUS]) - places.get(rows[b][STATUS]) || compare(clauses[a][1], clauses[b][1]) || a - b);
  const texts = rows.map((row) => `${row[ID]}\n${row[REASON]}`.toLowerCase());
  // Of a long id the page has the beginning only: whoever searches for all of it is to find it.
  const begin = (row) => row[ID].slice(0, row[ID].lastIndexOf("… (")).toLowerCase();
  const matches = (n, wanted) => texts[n].includes(wanted) || (rows[n][CUT] && wanted.startsWith(begin(rows[n])));
  const state = { sort: -1, down: false, page: 0, shown: first };

  const el = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const number = (value) => (value === null ? "-" : value.toLocaleString("en-US"));
  const duration = (seconds) => {
    if (seconds === null) return "-";
    const [, unit, name] = UNITS.find(([below]) => seconds < below);
    return `${(seconds / unit).toFixed(name === "days" ? 1 : 0)} ${name}`;
  };
  const date = (seconds) => (seconds === null ? "-" : new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " "));
  const code = (value) => el("code", {}, el("bdi", {}, value || "(empty id)"));
  const named = (name) => (name === null ? "-" : code(name));
  const COLUMNS = [
    ["Group", (row) => code(row[ID]), ""],
    ["Status", (row) => el("span", { class: `pill ${row[STATUS]}` }, data.words[row[STATUS]]), ""],
    ["Family", (row) => named(row[FAMILY]), ""],
    ["Owner", (row) => named(row[OWNER]), ""],
    ["Lag", (row) => number(row[LAG]), "num"],
    ["Idle", (row) => duration(row[IDLE]), "num"],
    ["Offsets expire by", (row) => date(row[EXPIRES]), "num"],
    ["Why", (row, n) => (isGrouped() ? clauses[n][0] : row[REASON]), ""],
  ];
  const isGrouped = () => state.sort === -1;

  const order = (a, b) => {
    const [x, y] = [rows[a][state.sort], rows[b][state.sort]];
    if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
    const by = state.sort === ID || typeof x === "number" ? compare(x, y) : x.localeCompare(y);
    return (state.down ? -1 : 1) * by || a - b;
  };

  const search = el("input", { type: "search", id: "search", autocomplete: "off", spellcheck: "false" });
  const choice = (id, names, shown = (name) => name) => {
    const select = el("select", { id }, el("option", { value: "" }, "all"));
    names.forEach((name, n) => select.append(el("option", { value: String(n) }, shown(name).slice(0, 80) || "(empty)")));
    return select;
  };
  const status = choice("status", statuses, (name) => data.words[name]), family = choice("family", families), owner = choice("owner", owners);
  const field = (label, input) => el("label", { for: input.id }, el("span", {}, label), input);
  const fields = el("div", { class: "controls", role: "search", "aria-label": "Groups" }, field("Search", search), field("Status", status));
  if (families.length) fields.append(field("Family", family));
  if (owners.length) fields.append(field("Owner", owner));

  const found = el("p", { class: "note", role: "status" });
  const heads = COLUMNS.map(([name, , kind], column) => {
    const button = el("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      state.down = state.sort === column ? !state.down : kind === "num";
      state.sort = column;
      update();
    });
    return el("th", { scope: "col", class: kind }, button);
  });
  const body = el("tbody");
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const back = el("button", { type: "button" }, "Previous"), next = el("button", { type: "button" }, "Next");
  const where = el("span");
  const pager = el("p", { class: "pager" }, back, where, next);
  const undo = el("div", { class: "undo" });

  const line = (n) => el("tr", {}, ...COLUMNS.map(([, cell, kind]) => el("td", { class: kind }, cell(rows[n], n))));
  const heading = (n) => el("tr", { class: "why" }, el("th", { colspan: String(COLUMNS.length), scope: "rowgroup" }, clauses[n][1]));
  const draw = (start, most) => {
    const page = state.shown.slice(start, start + most);
    const begins = (n, at) => isGrouped() && (at === 0 || clauses[page[at - 1]][1] !== clauses[n][1]);
    body.replaceChildren(...page.flatMap((n, at) => (begins(n, at) ? [heading(n), line(n)] : [line(n)])));
  };
  const show = () => {
    const pages = Math.max(1, Math.ceil(state.shown.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    draw(state.page * PAGE, PAGE);
    where.textContent = `Page ${state.page + 1} of ${pages.toLocaleString("en-US")}`;
    back.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
    pager.hidden = pages === 1;
  };
  const offer = () => {
    const deleted = state.shown.filter((n) => data.restorable.includes(rows[n][STATUS]));
    undo.replaceChildren();
    if (!data.restore || !deleted.length || deleted.length > MOST_NAMED || deleted.some((n) => rows[n][CUT])) return;
    const quoted = deleted.map((n) => `'${rows[n][ID].replaceAll("'", "'\\''")}'`).join(" ");
    if (/[\u0000-\u001f\u007f]/.test(quoted)) return;
    undo.append(el("p", {}, `Restore the ${deleted.length} deleted among those shown (take --yes out for a dry run):`), el("pre", { tabindex: "0" }, `${data.restore} -- ${quoted}`));
  };
  const update = () => {
    const wanted = search.value.toLowerCase();
    const chosen = [[status, STATUS, statuses], [family, FAMILY, families], [owner, OWNER, owners]].filter(([select]) => select.value !== "").map(([select, column, names]) => [names[Number(select.value)], column]);
    state.shown = [];
    for (const n of first) {
      if (matches(n, wanted) && chosen.every(([value, column]) => rows[n][column] === value)) state.shown.push(n);
    }
    if (state.sort >= 0) state.shown.sort(order);
    heads.forEach((head, column) => {
      if (column === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    counted();
    state.page = 0;
    show();
    offer();
  };
  search.addEventListener("input", update);
  for (const select of [status, family, owner]) select.addEventListener("change", update);
  back.addEventListener("click", () => { state.page -= 1; show(); });
  next.addEventListener("click", () => { state.page += 1; show(); });
  const counted = (printed = "") => {
    const more = data.total > rows.length ? `; the other ${number(data.total - rows.length)} groups are in the plan's file` : "";
    found.textContent = `${number(state.shown.length)} of ${number(rows.length)} groups${more}${printed}`;
  };
  addEventListener("beforeprint", () => {
    draw(0, PRINTED);
    if (state.shown.length > PRINTED) counted(`; the first ${number(PRINTED)} are printed`);
  });
  addEventListener("afterprint", () => {
    show();
    counted();
  });

  // A name in the tables of families and owners shows its groups.
  for (const [id, select, names] of [["families", family, families], ["owners", owner, owners]]) {
    for (const cell of document.querySelectorAll(`#${id} tbody td:first-child`)) {
      const index = names.indexOf(cell.textContent);
      if (index < 0) continue;
      const button = el("button", { type: "button", class: "link" }, ...cell.childNodes);
      button.addEventListener("click", () => {
        select.value = String(index);
        update();
        place.scrollIntoView();
        search.focus({ preventScroll: true });
      });
      cell.append(button);
    }
  }
  place.querySelector("h2").replaceChildren("All groups ", el("span", { class: "count" }, number(data.total)));
  for (const old of [...place.children].slice(1)) old.remove();
  place.append(fields, found, undo, el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "All groups" }, table), pager);
  update();
})();
