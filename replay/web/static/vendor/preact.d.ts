// What of the vendored file our modules use, as their checker has to know it.
export interface Signal<T> { value: T; peek(): T }
export interface ReadonlySignal<T> { readonly value: T; peek(): T }
export function signal<T>(value: T): Signal<T>;
export function computed<T>(make: () => T): ReadonlySignal<T>;
export function effect(run: () => void): () => void;
export function untracked<T>(fn: () => T): T;
export function batch<T>(run: () => T): T;
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function render(what: any, where: Element): void;
export function useState<T>(start: T | (() => T)): [T, (next: T) => void];
export function useRef<T>(start: T): { current: T };
export function useEffect(run: () => void | (() => void), on?: any[]): void;
export function useLayoutEffect(run: () => void | (() => void), on?: any[]): void;
export function useMemo<T>(make: () => T, on: any[]): T;
