/* The session (decision 64). Its secret is in the storage of this origin, which no other port and no other site can read.
   It is sent in a header, which browsers never add by themselves, and is good for the page and its events alone. */

const STORED_AS = "engrambus-session";
export const HEADER = "Engrambus-Session";

export const secret = () => localStorage.getItem(STORED_AS);
export const sessionHeaders = () => ({ [HEADER]: secret() ?? "" });

/* Exchanges the code of a link for a session, and ends the one this browser had. Returns false for a code that is used up. */
export async function openSession(code) {
  const answer = await post("/page/open", { code });
  if (answer.ok) localStorage.setItem(STORED_AS, (await answer.json()).session);
  else if (answer.status !== 401) throw new Error(`/page/open: ${answer.status}`);
  return answer.ok;
}

export async function signOut() {
  const ended = post("/page/sign-out", {});
  localStorage.removeItem(STORED_AS);
  await ended.catch(() => {}); // a server that does not answer has no session any more
}

/* Forgets a secret that was refused. Returns false if another window has signed in again since it was sent. */
export function forget(refused) {
  if (secret() === refused) localStorage.removeItem(STORED_AS);
  return !secret();
}

/* Calls a function when another window of this origin has signed in or out. */
export function onOtherWindow(changed) {
  window.addEventListener("storage", (event) => event.key === STORED_AS && changed());
}

function post(address, form) {
  return fetch(address, { method: "POST", headers: sessionHeaders(), body: new URLSearchParams(form) });
}
