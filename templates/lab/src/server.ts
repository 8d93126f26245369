import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/** What the session's server answers to `dsportal/api/PATH`; an error has the server's own words. */
export async function ask<T>(path: string, query: Record<string, string> = {}, body?: object): Promise<T> {
  const init: RequestInit = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  return (await (await answer(path + URLExt.objectToQueryString(query), init)).json()) as T;
}

/** Has the session's server take away what is at `dsportal/api/PATH`. */
export async function remove(path: string): Promise<void> {
  await answer(path, { method: 'DELETE' });
}

async function answer(path: string, init: RequestInit): Promise<Response> {
  const settings = ServerConnection.makeSettings();
  const response = await ServerConnection.makeRequest(
    URLExt.join(settings.baseUrl, 'dsportal/api', path),
    init,
    settings
  );
  if (!response.ok) {
    throw new Error(await words(response));
  }
  return response;
}

async function words(response: Response): Promise<string> {
  try {
    return ((await response.json()) as { message: string }).message || response.statusText;
  } catch {
    return response.statusText;
  }
}
