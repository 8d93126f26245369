const RESTS_MS = 50; // a pointer that only crosses aims at nothing
const KEPT_MS = 10_000;

/**
 * Has Chromium draw what a click opens in a new tab, out of sight, while the pointer rests on what is clicked, or while
 * it has the focus (Speculation Rules, WICG; `target_hint`: Chromium 138). Nothing happens in other browsers. It is one
 * page at most, gone with the pointer, and after some seconds: a page asks for new data again and again. A pointer that
 * moves on to another part of the same has it drawn anew.
 *
 * The server answers such a request only where a click would start nothing.
 */
export function drawAhead(addressOf: (element: Element) => string | undefined): void {
  let aimed: string | null | undefined;
  let timer = 0;
  let rules: HTMLScriptElement | undefined;

  if (!HTMLScriptElement.supports?.('speculationrules')) {
    return;
  }
  const drop = (): void => {
    clearTimeout(timer);
    rules?.remove();
  };
  const draw = (address: string): void => {
    rules = document.createElement('script');
    rules.type = 'speculationrules';
    rules.textContent = JSON.stringify({ prerender: [{ urls: [address], target_hint: '_blank' }] });
    document.head.append(rules);
    timer = setTimeout(() => {
      drop();
      aimed = null;
    }, KEPT_MS);
  };
  const aim = (element: EventTarget | null): void => {
    const address = element && addressOf(element as Element);
    if (address !== aimed) {
      drop();
      aimed = address;
      if (address) {
        timer = setTimeout(() => draw(address), RESTS_MS);
      }
    }
  };
  document.addEventListener('pointerover', event => aim(event.target));
  document.addEventListener('focusin', event => aim(event.target));
  document.documentElement.addEventListener('pointerleave', () => aim(null));
}
