"""The part of the package redis that docs/redis.md uses, for machines without that package."""
import socket
from urllib.parse import urlsplit


class ResponseError(Exception):
    pass


class Redis:
    def __init__(self, host, port):
        self.conn = socket.create_connection((host, port))
        self.reader = self.conn.makefile("rb")

    @classmethod
    def from_url(cls, url, decode_responses):
        assert decode_responses
        u = urlsplit(url)
        return cls(u.hostname, u.port or 6379)

    def call(self, *args):
        out = [b"*%d\r\n" % len(args)]
        for a in args:
            raw = str(a).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
        self.conn.sendall(b"".join(out))
        return self.reply()

    def reply(self):
        line = self.reader.readline()[:-2].decode()
        kind, rest = line[0], line[1:]
        if kind == "-":
            raise ResponseError(rest)
        if kind == "+":
            return rest
        n = int(rest)
        if kind == ":":
            return n
        if n < 0:
            return None
        if kind == "$":
            return self.reader.read(n + 2)[:-2].decode()
        return [self.reply() for _ in range(n)]

    def xgroup_create(self, name, group, id, mkstream):
        assert mkstream
        return self.call("XGROUP", "CREATE", name, group, id, "MKSTREAM")

    def xreadgroup(self, group, consumer, streams, count, block):
        reply = self.call("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "BLOCK", block, "STREAMS", *streams, *streams.values())
        return [(name, [(id, dict(zip(f[::2], f[1::2])) if f else {}) for id, f in entries]) for name, entries in reply or []]

    def xack(self, name, group, id):
        return self.call("XACK", name, group, id)

    def xadd(self, name, fields):
        return self.call("XADD", name, "*", *(x for pair in fields.items() for x in pair))
