(() => {
"use strict";
const find = (id) => document.getElementById(id);
const live = find("live"), hold = find("hold");
const RETRY_MS = 5000;
let source = null, wanted = null, busy = false, held = false, timer = 0;

function say(text, how) {
  if (live.textContent !== text) live.textContent = text;
  live.className = how;
}

function inside(part, key) {
  return [...part.querySelectorAll("[data-k]")].find((one) => one.dataset.k === key);
}

// Keep open details open, and keep the focus.
function swap(old, fresh) {
  for (const one of old.querySelectorAll("details[open]")) {
    const same = inside(fresh, one.dataset.k);
    if (same) same.open = true;
  }
  const active = document.activeElement;
  const key = old.contains(active) ? active.dataset.k : undefined;
  if (fresh.classList.contains("chart")) fresh.classList.add("fresh");
  old.replaceWith(fresh);
  const again = key && inside(fresh, key);
  if (again) again.focus({preventScroll: true});
}

async function settle() {
  if (busy) return;
  busy = true;
  try {
    while (wanted && !held) {
      const news = wanted;
      wanted = null;
      let ids = Object.keys(news.versions).filter((id) => !find(id) || find(id).dataset.v !== news.versions[id]);
      if (ids.includes("map")) ids = ids.filter((id) => ["head", "fleet", "waiting", "machines", "map"].includes(id));
      if (ids.length) {
        const query = new URLSearchParams(location.search);
        query.delete("id");
        ids.forEach((id) => query.append("id", id));
        const answer = await fetch(`/fragments?${query}`, {cache: "no-store"});
        if (!answer.ok) break;
        const parts = document.createElement("template");
        parts.innerHTML = await answer.text();
        for (const fresh of [...parts.content.children]) {
          const old = find(fresh.id);
          if (old) swap(old, fresh);
        }
      }
      find("at").textContent = news.at;
    }
  } catch {
    // The server is unreachable; the event stream reconnects.
  } finally {
    busy = false;
  }
}

function start() {
  clearTimeout(timer);
  source = new EventSource(`/events${location.search}`);
  source.addEventListener("open", () => say("Live", "on"));
  source.addEventListener("state", (event) => {
    wanted = JSON.parse(event.data);
    settle();
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
start();
})();
