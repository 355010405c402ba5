// The page of a try: sends the form and shows the answer as it comes. Without this script the form
// is sent as any other, and the server writes the page as the answer comes.
(() => {
  "use strict";
  const form = document.getElementById("try-form");
  if (!form || !window.fetch || !window.ReadableStream) return;
  const answer = document.getElementById("try-answer");
  const note = document.getElementById("try-note");
  const text = document.getElementById("try-text");
  const end = document.getElementById("try-end");
  const send = form.querySelector('button[type="submit"]');
  const stop = document.getElementById("try-stop");
  const secret = document.getElementById("secret");
  const pasted = document.getElementById("source-pasted");
  // What a page holds of an answer; the server's own bound is below it.
  const MOST = 4 * 1024 * 1024;
  let leaving = null;
  let isOver = false;

  secret.addEventListener("input", () => {
    if (secret.value) pasted.checked = true;
  });

  const reset = () => {
    note.textContent = "Sent; waiting for the first words.";
    text.textContent = "";
    end.textContent = "";
    answer.hidden = false;
    isOver = false;
  };

  // Both parts are made by templates of the server, which escape all that is not theirs.
  const add = (html) => {
    const part = document.createElement("template");
    part.innerHTML = html;
    end.append(part.content);
  };

  const told = {
    note: (words) => { note.textContent = words; },
    text: (words) => {
      if (note.textContent) note.textContent = "";
      text.append(words);
    },
    outcome: (html) => {
      note.textContent = "Waiting for its line in the ledger.";
      add(html);
    },
    bill: (html) => {
      note.textContent = "";
      add(html);
      isOver = true;
    },
  };

  const take = (event) => {
    const name = /^event: (\w+)$/m.exec(event);
    const data = /^data: (.*)$/m.exec(event);
    if (name && data && told[name[1]]) told[name[1]](JSON.parse(data[1]));
  };

  const read = async (body) => {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      held += value;
      if (held.length > MOST) throw new Error("too long");
      const events = held.split("\n\n");
      held = events.pop();
      events.forEach(take);
    }
  };

  const run = async () => {
    leaving = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    reset();
    try {
      const reply = await fetch(form.dataset.stream, {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        signal: leaving.signal,
        redirect: "error",
      });
      const type = reply.headers.get("content-type") || "";
      if (!reply.ok || !type.startsWith("text/event-stream")) {
        // The server's own page says what is wrong, beside the fields.
        form.submit();
        return;
      }
      await read(reply.body);
      if (!isOver) note.textContent = "The connection to this page's server broke off. What you see may be cut.";
    } catch (error) {
      if (leaving.signal.aborted) {
        const link = document.createElement("a");
        link.href = "/requests";
        link.textContent = "Requests";
        note.textContent = "You left; the data plane was told, and bills what was used until then. It comes up under ";
        note.append(link, ".");
      } else {
        note.textContent = "The connection to this page's server broke off. What you see may be cut.";
      }
    } finally {
      send.disabled = false;
      stop.hidden = true;
    }
  };

  stop.addEventListener("click", () => leaving && leaving.abort());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
})();
