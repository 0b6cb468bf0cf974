// Tells the reviewer of new requests. Without this script the page renews itself now and then.
const note = document.getElementById("live");
const shown = new Set(Array.from(document.querySelectorAll("tr[data-id]"), (row) => row.dataset.id));
const first = new URLSearchParams(location.search).get("after") === null;
const title = document.title;

async function look() {
  let fresh = 0;
  try {
    const answer = await fetch("/api/approvals?state=pending", { cache: "no-store", redirect: "error" });
    if (answer.status === 401) {
      location.reload();
      return;
    }
    if (!answer.ok) throw new Error(String(answer.status));
    const { approvals } = await answer.json();
    fresh = approvals.filter((a) => !shown.has(a.id)).length;
    const gone = shown.size > 0 && first && approvals.length < 50 && shown.size !== approvals.length - fresh;
    if (fresh === 0 && !gone) {
      note.replaceChildren();
      document.title = title;
      return;
    }
  } catch {
    note.textContent = "The console does not answer. What you see may be out of date.";
    return;
  }
  // Nothing moves under the hand of someone who is working with the page.
  if (first && document.activeElement === document.body && !document.hidden) {
    location.reload();
    return;
  }
  const link = document.createElement("a");
  link.href = "/";
  link.textContent = fresh === 1 ? "1 new request" : fresh > 1 ? fresh + " new requests" : "The list has changed";
  note.replaceChildren(link);
  if (fresh > 0) document.title = "(" + fresh + ") " + title;
}

if (first) setInterval(look, 2000);
