"""A small client of the API server: JSON over one kept-alive TLS connection. One object per thread."""

import http.client
import json
import ssl
import urllib.parse


class ApiError(Exception):
    def __init__(self, status, text):
        super().__init__(f"HTTP {status}: {text[:500]}")
        self.status = status


class ApiClient:
    def __init__(self, url, authority, certificate=None, key=None, timeout_s=10.0):
        self._context = ssl.create_default_context(cafile=str(authority))
        if certificate:
            self._context.load_cert_chain(str(certificate), str(key))
        address = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=timeout_s, context=self._context)

    def request(self, method, path, body=None, content_type="application/json"):
        """Returns the decoded answer (text where it is not JSON). Raises ApiError, or OSError where nobody answers."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        reused = self._connection.sock is not None
        try:
            response, text = self._exchange(method, path, data, headers)
        except OSError:
            # The server may have closed a connection that was kept; only what changes nothing is asked again.
            if method != "GET" or not reused:
                raise
            response, text = self._exchange(method, path, data, headers)
        if response.status >= 300:
            raise ApiError(response.status, text)
        return json.loads(text) if response.headers.get_content_type() == "application/json" else text

    def _exchange(self, method, path, data, headers):
        try:
            self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            return response, response.read().decode("utf-8", errors="replace")
        except http.client.HTTPException as error:
            self.close()
            raise OSError(f"connection to the API server broke: {error!r}") from error
        except OSError:
            self.close()
            raise

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path, body=None):
        return self.request("DELETE", path, body)

    def close(self):
        self._connection.close()
