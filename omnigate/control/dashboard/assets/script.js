// What pages do beside being read: times in the reader's zone, copying, parts that come up by
// themselves. All of them work without it, but for the last.
"use strict";

(() => {
  const POLL_MS = 5000;
  const AGAIN_MS = 1000;
  // A stream that has ended sooner is counted as one that could not be opened.
  const STEADY_MS = 10000;
  const MAX_FAILURES = 2;
  const SENT_MS = 5000;
  // Polls after which a stream is tried again.
  const POLLS = 12;

  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

  const two = (number) => String(number).padStart(2, "0");

  function clock(at, withSeconds) {
    const seconds = withSeconds ? `:${two(at.getSeconds())}` : "";
    return `${two(at.getHours())}:${two(at.getMinutes())}${seconds}`;
  }

  function day(at) {
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  }

  // -- times and copying -------------------------------------------------------------------------

  function prepare(root) {
    for (const element of root.querySelectorAll("time[datetime]")) {
      const at = new Date(element.dateTime);
      if (element.textContent.endsWith(" UTC") && !Number.isNaN(at.getTime())) {
        element.textContent = `${day(at)} ${clock(at, true)}`;
      }
    }
    for (const element of root.querySelectorAll("text[data-time]")) {
      const at = new Date(Number(element.dataset.time));
      const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
      element.textContent = isMidnight
        ? `${at.getDate()} ${MONTHS[at.getMonth()]}`
        : clock(at, false);
    }
    for (const button of root.querySelectorAll("[data-copy]")) {
      button.hidden = false;
    }
  }

  // Browsers have no clipboard where a page came over plain HTTP from another machine.
  function copyBySelection(element) {
    const selection = window.getSelection();
    const range = document.createRange();
    range.selectNodeContents(element);
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }

  async function copy(button) {
    const element = button.closest(".copy").querySelector("code");
    let isCopied = false;
    try {
      await navigator.clipboard.writeText(element.textContent);
      isCopied = true;
    } catch {
      isCopied = copyBySelection(element);
    }
    const words = button.dataset.words ?? button.textContent;
    button.dataset.words = words;
    button.textContent = isCopied ? "Copied" : "Selected";
    window.setTimeout(() => {
      button.textContent = words;
    }, 2000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (button) {
      copy(button);
    }
  });

  // -- live parts --------------------------------------------------------------------------------

  const WORDS = {
    live: "Live",
    polling: "Live, every 5 seconds",
    lost: "Not connected, trying again",
    paused: "Paused",
  };

  function named(attribute, name) {
    return [...document.querySelectorAll(`[${attribute}]`)].filter(
      (element) => element.getAttribute(attribute) === name,
    );
  }

  class LivePart {
    constructor(element) {
      this.element = element;
      this.name = element.dataset.live;
      this.mark = element.dataset.mark ?? "";
      this.source = null;
      this.timer = 0;
      this.turn = 0; // of the polls under way, those of an earlier one are of no account
      this.failures = 0;
      this.polls = 0;
      this.isPaused = false;
      this.later = null;
      [this.status = null] = named("data-live-state", this.name);
      this.button = this.status?.querySelector("button") ?? null;
      this.button?.addEventListener("click", () => this.toggle());
      element.addEventListener("focusout", () => window.setTimeout(() => this.showLater(), 0));
      if (this.button) {
        this.button.hidden = false;
      }
    }

    address(once) {
      const given = new URLSearchParams(this.element.dataset.query ?? window.location.search);
      const query = new URLSearchParams([...given].filter(([, value]) => value.trim()));
      query.set("mark", this.mark);
      if (once) {
        query.set("once", "1");
      }
      return `/live/${encodeURIComponent(this.name)}?${query}`;
    }

    tell(state) {
      if (this.status && this.status.dataset.state !== state) {
        this.status.dataset.state = state;
        this.status.querySelector("[role=status]").textContent = WORDS[state];
      }
    }

    toggle() {
      this.isPaused = !this.isPaused;
      this.button.textContent = this.isPaused ? "Go on" : "Pause";
      if (this.isPaused) {
        this.tell("paused");
        this.stop();
      } else {
        this.start();
      }
    }

    start() {
      if (!this.isPaused && !document.hidden && !this.source && !this.timer) {
        this.failures = 0;
        this.connect();
      }
    }

    stop() {
      this.turn += 1;
      this.source?.close();
      this.source = null;
      window.clearTimeout(this.timer);
      this.timer = 0;
    }

    after(ms, what) {
      this.timer = window.setTimeout(() => {
        this.timer = 0;
        what();
      }, ms);
    }

    connect() {
      const source = new EventSource(this.address(false));
      let opened = 0;
      this.source = source;
      source.onopen = () => {
        opened = Date.now();
        this.tell("live");
      };
      source.onmessage = (event) => this.take(JSON.parse(event.data));
      // A stream ends every few minutes. The next one begins at another mark, so it is another.
      source.onerror = () => {
        source.close();
        if (this.source === source) {
          this.source = null;
          this.failures = opened && Date.now() - opened > STEADY_MS ? 0 : this.failures + 1;
          this.polls = 0;
          this.poll();
        }
      };
    }

    async poll() {
      const turn = this.turn;
      // Nothing else is begun while this goes on.
      this.timer = -1;
      let status = 0;
      let message = null;
      try {
        const answer = await fetch(this.address(true), { cache: "no-store" });
        status = answer.status;
        message = answer.ok ? await answer.json() : null;
      } catch {
        message = null;
      }
      if (turn !== this.turn) {
        return;
      }
      this.timer = 0;
      if (status === 401) {
        window.location.reload();
        return;
      }
      if (message === null) {
        this.tell("lost");
        this.after(POLL_MS, () => this.poll());
        return;
      }
      this.take(message);
      this.polls += 1;
      if (this.failures < MAX_FAILURES || this.polls >= POLLS) {
        this.after(AGAIN_MS, () => this.connect());
        return;
      }
      this.tell("polling");
      this.after(POLL_MS, () => this.poll());
    }

    take(message) {
      if (message.mark === this.mark) {
        return;
      }
      this.mark = message.mark;
      if (!message.html) {
        return;
      }
      if (message.mode === "prepend") {
        this.prepend(message.html);
      } else {
        this.later = message.html;
        this.showLater();
      }
    }

    // Nothing is taken from under the hands of somebody who is in it.
    showLater() {
      if (this.later !== null && !this.element.contains(document.activeElement)) {
        this.element.replaceChildren(made(this.later));
        this.later = null;
      }
    }

    prepend(html) {
      const rows = made(html);
      for (const row of rows.children) {
        row.classList.add("new");
      }
      this.element.prepend(rows);
      const most = Number(this.element.dataset.max) || 100;
      const isFull = this.element.children.length > most;
      while (this.element.children.length > most) {
        this.element.lastElementChild.remove();
      }
      if (isFull) {
        // What is gone is on no other page either: the older ones begin behind it.
        for (const element of named("data-live-full", this.name)) {
          element.hidden = false;
        }
      }
      for (const element of named("data-live-empty", this.name)) {
        element.hidden = true;
      }
      for (const element of named("data-live-filled", this.name)) {
        element.hidden = false;
      }
    }
  }

  // All HTML that comes here was made by the server, which has escaped what is in it.
  function made(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    prepare(template.content);
    return template.content;
  }

  // A form is sent once. Of a second click the browser would show the second answer, and what only
  // the first one says, such as a secret, would be lost. Where no answer comes it may be sent again.
  function sendOnce(event) {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") {
      return;
    }
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    setTimeout(() => delete form.dataset.sent, SENT_MS);
  }

  // The address of a search is passed on, so it holds nothing but what was filled in.
  function leaveOutEmpty(event) {
    if (event.target.method === "get") {
      for (const [name, value] of [...event.formData]) {
        if (value === "") {
          event.formData.delete(name);
        }
      }
    }
  }

  document.addEventListener("submit", sendOnce);
  document.addEventListener("formdata", leaveOutEmpty);
  prepare(document);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.querySelector(".framed .foot")?.append(` · times in ${zone ?? "your zone"}, days in UTC`);
  const parts = [...document.querySelectorAll("[data-live]")].map(
    (element) => new LivePart(element),
  );
  const startAll = () => parts.forEach((part) => part.start());
  const stopAll = () => parts.forEach((part) => part.stop());
  document.addEventListener("visibilitychange", () => (document.hidden ? stopAll() : startAll()));
  window.addEventListener("pagehide", stopAll);
  window.addEventListener("pageshow", startAll);
  startAll();
})();
