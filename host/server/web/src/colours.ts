// Every model has one colour wherever it is shown, by its place in the deployment.

export class Colours {
  private readonly places = new Map<string, number>();

  constructor(models: string[]) {
    models.forEach((name, index) => this.places.set(name, index));
  }

  place(model: string): number {
    return this.places.get(model) ?? 0;
  }

  /** The class that sets `--model`. */
  class(model: string): string {
    return `m${this.place(model) % 8}`;
  }
}
