import { Drive, RestContentProvider } from '@jupyterlab/services';

interface IAddressed {
  _getUrl(...parts: string[]): string;
}

/**
 * What is asked of the server as a file is one: JupyterLab joins a file's path to the address of all files, and a path
 * that leads up is that of something else, as of the bytes of a file that says itself what may be trusted.
 */
export function keepToFiles(): void {
  for (const one of [Drive.prototype, RestContentProvider.prototype] as unknown as IAddressed[]) {
    const plain = one._getUrl;
    one._getUrl = function (...parts: string[]): string {
      parts.forEach(refuseToClimb);
      return plain.apply(this, parts);
    };
  }
  const { getDownloadUrl } = Drive.prototype;
  Drive.prototype.getDownloadUrl = async function (path: string): Promise<string> {
    refuseToClimb(path);
    return getDownloadUrl.call(this, path);
  };
}

function refuseToClimb(path: string): void {
  if (path.split('/').includes('..')) {
    throw new Error(`This path leads out of your files: ${path}`);
  }
}
