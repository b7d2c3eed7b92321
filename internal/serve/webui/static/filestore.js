// Keeps the files of drafts and undelivered messages across a reload of the page, in
// IndexedDB. Without it, as in some private windows, files last until the page is
// closed, and the page then asks for them again.

const oldest = 24 * 3600 * 1000;

// Maximum size of all kept files, in bytes of base64. The oldest are dropped first.
const most = 100 << 20;

let opening = null;

function opened() {
  opening ??= new Promise((resolve, reject) => {
    const asked = indexedDB.open('lilac', 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore('files');
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
  return opening;
}

// work makes a call on the stored files and returns its result, or undefined if the
// browser refuses it.
async function work(mode, call) {
  try {
    const db = await opened();
    return await new Promise((resolve, reject) => {
      const transaction = db.transaction('files', mode);
      const asked = call(transaction.objectStore('files'));
      transaction.oncomplete = () => resolve(asked?.result);
      transaction.onabort = () => reject(transaction.error);
    });
  } catch {
    return undefined; // forbidden, or full
  }
}

// keep stores a file that was read. Its key holds its time and size, so that old ones
// are found without loading them.
export function keep(file) {
  file.key = [Date.now(), file.dataBase64.length, crypto.getRandomValues(new Uint32Array(1))[0]];
  work('readwrite', (files) => files.put(file.dataBase64, file.key)).then(trim);
}

async function trim() {
  const keys = await work('readonly', (files) => files.getAllKeys()) ?? [];
  let room = most;
  drop(keys.reverse().filter(([at, size]) => (room -= size) < 0 || at < Date.now() - oldest).map((key) => ({ key })));
}

// drop removes files that were sent, or that the person removed.
export function drop(dropped) {
  const keys = dropped.map(({ key }) => key).filter(Boolean);
  if (keys.length) work('readwrite', (files) => keys.forEach((key) => files.delete(key)));
}

// dropAll removes the files of all tabs.
export const dropAll = () => work('readwrite', (files) => files.clear());

// named returns what is stored beside a draft or a message to find its files again.
export const named = (files) => files.map(({ filename, mimeType, size, key }) => ({ filename, mimeType, size, key }));

// found returns files that were kept. A file that is gone is broken.
export const found = (names) => names.map((name) => {
  const file = { ...name, broken: false };
  file.ready = work('readonly', (files) => files.get(name.key)).then((data) => {
    file.dataBase64 = data;
    file.broken = data === undefined;
  });
  return file;
});

trim();
