import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/** What the session's server answers to `dsportal/api/PATH`; an error has the server's own words. */
export async function ask<T>(path: string, query: Record<string, string> = {}, body?: object): Promise<T> {
  const settings = ServerConnection.makeSettings();
  const address = URLExt.join(settings.baseUrl, 'dsportal/api', path) + URLExt.objectToQueryString(query);
  const init: RequestInit = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  const response = await ServerConnection.makeRequest(address, init, settings);
  if (!response.ok) {
    throw new Error(await words(response));
  }
  return (await response.json()) as T;
}

async function words(response: Response): Promise<string> {
  try {
    return ((await response.json()) as { message: string }).message || response.statusText;
  } catch {
    return response.statusText;
  }
}
