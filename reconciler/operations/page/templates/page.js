(() => {
"use strict";
const find = (id) => document.getElementById(id);
const live = find("live"), hold = find("hold"), at = find("at"), stale = find("stale");
const RETRY_MS = 5000, TICK_MS = 5000, SILENCE_MS = 45000;
let source = null, wanted = null, busy = false, held = false, timer = 0, heard = performance.now();
let clock = {server: Date.parse(at.dateTime), here: performance.now()};

function say(text, how) {
  if (live.textContent !== text) live.textContent = text;
  live.className = how;
  const old = how === "on" ? "" : `${text}. The page shows the state as of ${at.textContent}.`;
  if (stale.textContent !== old) stale.textContent = old;
  stale.hidden = !old;
}

// As kubectl prints ages; the server prints them in the same way.
function age(seconds) {
  const s = Math.max(Math.floor(seconds), 0), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  const two = (a, x, b, y) => b ? `${a}${x}${b}${y}` : `${a}${x}`;
  if (s < 120) return `${s}s`;
  if (m < 10) return two(m, "m", s % 60, "s");
  if (m < 180) return `${m}m`;
  if (h < 8) return two(h, "h", m % 60, "m");
  if (h < 48) return `${h}h`;
  return h < 192 ? two(d, "d", h % 24, "h") : `${d}d`;
}

function showAges() {
  const now = clock.server + (held ? 0 : performance.now() - clock.here);
  for (const one of document.querySelectorAll("time.age")) {
    const text = age((now - Date.parse(one.dateTime)) / 1000);
    if (!text.startsWith("NaN") && one.textContent !== text) one.textContent = text;
  }
}

function showTime(news) {
  at.textContent = news.at;
  at.dateTime = news.time;
  clock = {server: Date.parse(news.time), here: performance.now()};
}

function inside(part, key) {
  return [...part.querySelectorAll("[data-k]")].find((one) => one.dataset.k === key);
}

// Keep details open or closed as they are, and keep the focus and the scroll position of lists.
function swap(old, fresh) {
  for (const one of old.querySelectorAll("details[data-k]")) {
    const same = inside(fresh, one.dataset.k);
    if (same) same.open = one.open;
  }
  const active = document.activeElement;
  const key = old.contains(active) ? active.dataset.k : undefined;
  const itself = active === old;
  if (fresh.classList.contains("chart")) fresh.classList.add("fresh");
  old.replaceWith(fresh);
  const again = itself ? fresh : key && inside(fresh, key);
  if (again) again.focus({preventScroll: true});
}

// What is looked at stays where it is on the screen when parts above it change their height.
function keepPlace(change) {
  const seen = document.elementFromPoint(innerWidth / 2, innerHeight / 3)?.closest("main [id]");
  const before = seen?.getBoundingClientRect().top;
  change();
  const again = seen && find(seen.id);
  if (again && scrollY) scrollBy(0, again.getBoundingClientRect().top - before);
}

// Parts that are inside another part of the list come with it.
function outermost(ids) {
  const parts = ids.map(find);
  return ids.filter((_, n) => parts[n] && !parts.some((one, other) => one && other !== n && one.contains(parts[n])));
}

async function settle() {
  if (busy) return;
  busy = true;
  try {
    while (wanted && !held) {
      const news = wanted;
      wanted = null;
      const ids = outermost(Object.keys(news.versions).filter((id) => find(id)?.dataset.v !== news.versions[id]));
      if (ids.length) {
        const query = new URLSearchParams(location.search);
        query.delete("id");
        ids.forEach((id) => query.append("id", id));
        const answer = await fetch(`/fragments?${query}`, {cache: "no-store"});
        if (!answer.ok) break;
        const parts = document.createElement("template");
        parts.innerHTML = await answer.text();
        keepPlace(() => {
          for (const fresh of [...parts.content.children]) {
            const old = find(fresh.id);
            if (old) swap(old, fresh);
          }
        });
      }
      showTime(news);
      showAges();
    }
  } catch {
    // The server is unreachable; the event stream reconnects.
  } finally {
    busy = false;
  }
}

function start() {
  clearTimeout(timer);
  heard = performance.now();
  source = new EventSource(`/events${location.search}`);
  source.addEventListener("open", () => {
    heard = performance.now();
    say("Live", "on");
  });
  source.addEventListener("state", (event) => {
    heard = performance.now();
    wanted = JSON.parse(event.data);
    settle();
  });
  source.addEventListener("alive", (event) => {
    heard = performance.now();
    showTime(JSON.parse(event.data));
  });
  source.addEventListener("error", () => {
    say("Not connected", "off");
    if (source.readyState === EventSource.CLOSED) timer = setTimeout(start, RETRY_MS);
  });
}

function stop() {
  clearTimeout(timer);
  source.close();
}

function tick() {
  showAges();
  if (!held && source.readyState === EventSource.OPEN && performance.now() - heard > SILENCE_MS) {
    say("Not connected", "off");
    stop();
    start();
  }
}

// Arrow keys move between the cells of the heat map.
addEventListener("keydown", (event) => {
  const cell = document.activeElement.closest(".heat a");
  if (!cell) return;
  const all = [...document.querySelectorAll(".heat a")];
  const columns = all.filter((one) => one.offsetTop === all[0].offsetTop).length;
  const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[event.key];
  const next = step && all[all.indexOf(cell) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});

hold.hidden = false;
hold.addEventListener("click", () => {
  held = !held;
  hold.setAttribute("aria-pressed", String(held));
  if (held) {
    stop();
    say("Paused", "");
  } else {
    start();
  }
});
addEventListener("pagehide", stop);
addEventListener("pageshow", (event) => {
  if (event.persisted && !held) start();
});
setInterval(tick, TICK_MS);
start();
})();
