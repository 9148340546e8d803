// The server behind the page: its models, a streamed answer, a passage, and what goes wrong.

import { eventsOf } from "./events.js";

const GONE = "The server cannot be reached. Is it still running?";

/** An answer that is no answer; `message` is for a person. */
export class ServerError extends Error {
  name = "ServerError";
}

/** Asks the server that the page came from. The key stays in this object. */
export class Server {
  /** askForKey: returns a promise of a key; called with true where the one before was refused. */
  constructor(askForKey) {
    this.key = "";
    this.askForKey = askForKey;
    this.asking = null;
  }

  /** Return the names of the loops that are served. */
  async loops() {
    const body = await readJson(await this.#fetch("/v1/models", {}));
    const models = Array.isArray(body?.data) ? body.data : [];
    return models.filter((model) => model?.kind === "loop").map((model) => String(model.id));
  }

  /**
   * Yield the chunks of a loop's answer as they come.
   *
   * Throws ServerError for a refusal, an error in the middle and a stream that ends before [DONE];
   * AbortError where `signal` stops it.
   */
  async *ask(loop, question, signal) {
    const response = await this.#fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        model: loop,
        messages: [{ role: "user", content: question }],
        stream: true,
      }),
      signal,
    });
    for await (const data of this.#events(response, signal)) {
      if (data === "[DONE]") return;
      const chunk = parsed(data);
      if (chunk.error) throw new ServerError(`The server failed: ${messageOf(chunk)}`);
      yield chunk;
    }
    throw new ServerError("The answer broke off: the server ended it in the middle.");
  }

  /** Return {title, text, file, page} of a path below /passages/, null where it cannot be read. */
  async passage(path) {
    // Without a signature a server may refuse it whatever the key.
    const response = await this.#fetch(path, { headers: { Accept: "application/json" } }, [401, 403, 404]);
    if (!response.ok) return null;
    const { title, text, file, page } = await readJson(response);
    return { title: String(title ?? ""), text: String(text ?? ""), file, page };
  }

  async *#events(response, signal) {
    try {
      yield* eventsOf(response.body);
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ServerError("The answer broke off: the connection to the server was lost.");
    }
  }

  /** Fetch a path, with a key where the server wants one. Throws ServerError. */
  async #fetch(path, options, allowed = []) {
    for (;;) {
      const key = this.key;
      const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
      const response = await reached(path, { ...options, headers });
      if (response.ok || allowed.includes(response.status)) return response;
      if (response.status !== 401) throw new ServerError(await refusal(response));
      // Somebody else may have given one meanwhile.
      if (key === this.key) await this.#newKey(key !== "", options.signal);
    }
  }

  async #newKey(refused, signal) {
    this.asking ??= this.askForKey(refused).then((key) => {
      this.key = key;
      this.asking = null;
    });
    await Promise.race([this.asking, ...(signal ? [stopped(signal)] : [])]);
  }
}

async function reached(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(GONE);
  }
}

async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  const wait = response.headers.get("Retry-After");
  const again = wait && /^\d+$/.test(wait) ? ` Ask again in ${wait} s.` : "";
  return `The server answers ${response.status}: ${messageOf(body) || response.statusText}.${again}`;
}

async function readJson(response) {
  try {
    return await response.json();
  } catch {
    throw new ServerError("The server's answer could not be read: it is no JSON.");
  }
}

function parsed(data) {
  try {
    const chunk = JSON.parse(data);
    if (chunk !== null && typeof chunk === "object") return chunk;
  } catch {
    // Said below.
  }
  throw new ServerError("The answer broke off: the server sent what is no JSON.");
}

function messageOf(body) {
  return String(body?.error?.message ?? "").replace(/\.$/, "");
}

function stopped(signal) {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
