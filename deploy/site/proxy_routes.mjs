// Who has no route any more is reached by nothing that was begun before: the hub takes the route of a session away when it
// ends, and when its person may not use the portal any more. The session's own server ends what it has open; a program that
// its person put in its place need not. proxy_guard.mjs calls it.

export class Begun {
  #byRoute = new Map();
  #afterMs;

  constructor(afterS) {
    this.#afterMs = 1000 * afterS; // the session says goodbye itself
  }

  // `over` calls what it is given when this request is over.
  add(route, answer, over) {
    const theirs = this.#byRoute.get(route) ?? new Set();
    this.#byRoute.set(route, theirs.add(answer));
    over(() => {
      theirs.delete(answer);
      if (theirs.size === 0 && this.#byRoute.get(route) === theirs) this.#byRoute.delete(route);
    });
  }

  // The route is gone: what was begun by it ends soon, whether or not another one of this name has come.
  end(route) {
    const theirs = this.#byRoute.get(route);
    if (!theirs) return;
    this.#byRoute.delete(route);
    setTimeout(() => [...theirs].forEach((answer) => answer.destroy()), this.#afterMs);
  }
}
