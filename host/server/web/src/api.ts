// Requests to the server that the page came from, with the key if one was given, and errors that say what the server said.

export class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export class Api {
  private key: string;

  /** `name` tells keys of different listeners apart in the tab's storage. */
  constructor(private readonly name: string) {
    this.key = sessionStorage.getItem(name) ?? "";
  }

  setKey(key: string): void {
    this.key = key.trim();
    sessionStorage.setItem(this.name, this.key);
  }

  hasKey(): boolean {
    return this.key !== "";
  }

  /** A response of status 2xx. */
  async send(method: string, path: string, body?: BodyInit, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.key !== "") {
      headers["authorization"] = `Bearer ${this.key}`;
    }
    if (typeof body === "string") {
      headers["content-type"] = "application/json";
    }
    let response: Response;
    try {
      response = await fetch(path, { method, headers, body: body ?? null, signal: signal ?? null });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") {
        throw error;
      }
      throw new HttpError(0, "The server does not answer. Is it still running?");
    }
    if (!response.ok) {
      throw new HttpError(response.status, await said(response));
    }
    return response;
  }

  async get<T>(path: string): Promise<T> {
    return (await this.send("GET", path)).json() as Promise<T>;
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return (await this.send("POST", path, JSON.stringify(body))).json() as Promise<T>;
  }
}

/** The message of an OpenAI error object, or whatever there is. */
async function said(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const message: unknown = JSON.parse(text).error.message;
    if (typeof message === "string") {
      return message;
    }
  } catch {
    // Something between here and the server answered in its own way.
  }
  return `${response.status} ${response.statusText}: ${text.slice(0, 300)}`;
}

/** What to show of anything that was thrown. */
export function explain(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
