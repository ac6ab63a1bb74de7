// Server-sent events, as far as this server writes them: one `data:` line an event, and comments.

/** Cuts pieces of a stream, wherever they were cut on the way, into the data of its events. */
export class EventReader {
  private rest = "";

  /** The events that are complete with this piece. */
  push(piece: string): string[] {
    const parts = (this.rest + piece).split("\n\n");
    this.rest = parts.pop() ?? "";
    return parts.filter((part) => part.startsWith("data: ")).map((part) => part.slice("data: ".length));
  }
}

/** The data of all events up to `[DONE]`. */
export async function* events(response: Response): AsyncGenerator<string> {
  if (response.body === null) {
    return;
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const cut = new EventReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      throw new Error("The connection ended before the answer did.");
    }
    for (const data of cut.push(decoder.decode(value, { stream: true }))) {
      if (data === "[DONE]") {
        return;
      }
      yield data;
    }
  }
}
