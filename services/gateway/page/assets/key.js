// The API key that calls of this page show, where the server asks for one. It is kept for as long as the tab is open.
const kStored = "sluice-api-key";
const $ = (id) => document.getElementById(id);

const key = () => sessionStorage.getItem(kStored) ?? "";

// Headers that identify the caller; none without a key.
export const keyHeaders = () => (key() ? {authorization: `Bearer ${key()}`} : {});

// Why a call was refused, in words for people; undefined for a call that was not refused for want of a key.
export function refusalOf(httpStatus) {
  if (httpStatus === 401) return key() ? "this API key is not accepted" : "an API key is needed";
  if (httpStatus === 403) return "this API key may not do that";
  return undefined;
}

// Asks for a key while calls are refused; offers to forget the one that is used.
export function showKeyState(httpStatus) {
  const refused = httpStatus === 401;
  if ($("key-form").hidden === refused) {
    $("key-form").hidden = !refused;
    if (refused) $("key").focus();
  }
  $("forget-key").hidden = refused || !key();
}

// Calls back whenever the key has changed.
export function listenToKey(onChange) {
  const store = (value) => {
    if (value) sessionStorage.setItem(kStored, value);
    else sessionStorage.removeItem(kStored);
    onChange();
  };
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    store($("key").value.trim());
    $("key").value = "";
  });
  $("forget-key").addEventListener("click", () => store(""));
}
