const RESTS_MS = 50; // a pointer that only crosses aims at nothing
const KEPT_MS = 10_000;

/**
 * Has Chromium draw what a click opens in a new tab, out of sight, while the pointer rests on what is clicked, or while
 * it has the focus (Speculation Rules, WICG; `target_hint`: Chromium 138). Other browsers know nothing of it. It is one
 * page at most, gone with the pointer, and after some seconds: a page asks for new data again and again.
 *
 * The server answers such a request only where a click would start nothing.
 */
export function drawAhead(addressOf: (element: Element) => string | undefined): void {
  let aimed: string | undefined;
  let timer = 0;
  let rules: HTMLScriptElement | undefined;

  const drop = (): void => {
    window.clearTimeout(timer);
    rules?.remove();
    rules = undefined;
  };
  const draw = (address: string): void => {
    rules = document.createElement('script');
    rules.type = 'speculationrules';
    rules.textContent = JSON.stringify({ prerender: [{ urls: [address], target_hint: '_blank' }] });
    document.head.append(rules);
    timer = window.setTimeout(drop, KEPT_MS);
  };
  const aim = (element: EventTarget | null): void => {
    const address = element instanceof Element ? addressOf(element) : undefined;
    if (address !== aimed) {
      drop();
      aimed = address;
      if (address) {
        timer = window.setTimeout(() => draw(address), RESTS_MS);
      }
    }
  };
  document.addEventListener('pointerover', event => aim(event.target));
  document.addEventListener('focusin', event => aim(event.target));
  document.documentElement.addEventListener('pointerleave', () => aim(null));
}
