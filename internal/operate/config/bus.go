package config

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/engine/companion"
	"lilac/internal/foundation/fault"
)

// BusURL is the URL of a Redis server beside the bus. It may contain a password, which it hides from printers,
// encoders, and loggers.
type BusURL string

// Reveal returns the URL including the password. Call it only where the connection is made.
func (u BusURL) Reveal() string { return string(u) }

// String returns the URL with its password masked.
func (u BusURL) String() string { return maskPassword(string(u)) }

// MarshalText returns the URL with its password masked, so that encoders don't write it.
func (u BusURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText stores text as the URL.
func (u *BusURL) UnmarshalText(text []byte) error {
	*u = BusURL(text)
	return nil
}

// LogValue returns the URL with its password masked, so that loggers don't write it.
func (u BusURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// Password returns the content of the password file, or "" if no file is set.
func (b Bus) Password() (Secret, error) { return passwordIn("bus.passwordFile", b.PasswordFile) }

// SentinelPassword returns the content of the sentinels' password file, or "" if no file is set.
func (b Bus) SentinelPassword() (Secret, error) {
	return passwordIn("bus.sentinelPasswordFile", b.SentinelPasswordFile)
}

// Companion returns the settings of the connection to Redis.
func (b Bus) Companion() (companion.Options, error) {
	password, err := b.Password()
	if err != nil {
		return companion.Options{}, err
	}
	ofSentinels, err := b.SentinelPassword()
	if err != nil {
		return companion.Options{}, err
	}
	return companion.Options{
		URL: b.URL.Reveal(), Password: password.Reveal(), SentinelPassword: ofSentinels.Reveal(), CAFile: b.CAFile, CertFile: b.CertFile, KeyFile: b.KeyFile, Prefix: b.Prefix,
	}, nil
}

// passwordIn returns the first line of the file at path, or "" if path is empty.
func passwordIn(setting, path string) (Secret, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The file of %s %s cannot be read", setting, path)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return "", fault.InvalidField(setting, "%s is not a file with a password.", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The file of %s %s cannot be read", setting, path)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return Secret(strings.TrimSuffix(line, "\r")), nil
}

// parametersOfRedis lists the query parameters that the URL may have: those that the Redis client
// supports and that Lilac does not set itself.
var parametersOfRedis = []string{"addr", "db", "master_set", "protocol", "skip_verify"}

func (c checker) checkBus() error {
	b := c.Bus
	if b.URL == "" {
		if b.PasswordFile+b.SentinelPasswordFile+b.CAFile+b.CertFile+b.KeyFile != "" {
			return fault.InvalidField("bus.url", "The files under bus are for Redis, but bus.url is not set. Set it, or remove them.")
		}
		return nil
	}
	scheme, _, ok := strings.Cut(b.URL.Reveal(), "://")
	if !ok || !slices.Contains([]string{"redis", "rediss", "valkey", "valkeys", "unix"}, scheme) {
		return fault.InvalidField("bus.url", "The bus %q is unknown; use redis://host:6379, rediss://host:6379, or unix:///path/of/the/socket, or leave it out: events are in the database (database.url).", b.URL)
	}
	u, err := url.Parse(b.URL.Reveal())
	if err == nil && scheme == "unix" && (u.Host != "" || len(u.Path) < 2) {
		return fault.InvalidField("bus.url", "The socket of Redis must have an absolute path, as in unix:///run/redis/redis.sock?db=0.")
	}
	if err != nil || u.Hostname() == "" && scheme != "unix" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return fault.InvalidField("bus.url", "The URL of Redis has no host, or a port that is no number. It looks like redis://user:password@host:6379/0; "+
			"a password with / : @ ? # or %% in it has %%2F %%3A %%40 %%3F %%23 or %%25 there, or is in the file of bus.passwordFile.")
	}
	if port, err := strconv.Atoi(cmp.Or(u.Port(), "6379")); err != nil || port > 65535 {
		return fault.InvalidField("bus.url", "The URL of Redis has the port %s; the highest is 65535.", u.Port())
	}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fault.InvalidField("bus.url", "What follows the ? in the URL of Redis cannot be read. It looks like ?addr=host2:26379&master_set=NAME.")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(parametersOfRedis, name) {
			return fault.InvalidField("bus.url", "The URL of Redis has the unknown parameter %q%s There are: %s.",
				name, sentence(didYouMean(name, parametersOfRedis)), strings.Join(parametersOfRedis, ", "))
		}
	}
	if db := strings.TrimPrefix(u.Path, "/"); db != "" && scheme != "unix" {
		if n, err := strconv.Atoi(db); err != nil || n < 0 {
			return fault.InvalidField("bus.url", "The URL of Redis ends in /%s, which is not the number of a database.", db)
		}
	}
	_, err = b.Password()
	if _, sentinels := b.SentinelPassword(); sentinels != nil {
		err = errors.Join(err, sentinels)
	} else if b.SentinelPasswordFile != "" && !given.Has("master_set") {
		err = errors.Join(err, fault.InvalidField("bus.sentinelPasswordFile", "bus.sentinelPasswordFile is for sentinels, but bus.url has no master_set."))
	}
	if (b.CertFile == "") != (b.KeyFile == "") {
		err = errors.Join(err, fault.InvalidField("bus.certFile", "bus.certFile and bus.keyFile belong together. Set both."))
	}
	if b.Prefix == "" || strings.ContainsAny(b.Prefix, " \t*?[]{}") {
		err = errors.Join(err, fault.InvalidField("bus.prefix", "%q is not a prefix for keys: it must not be empty and holds no space, brace, bracket or wildcard.", b.Prefix))
	}
	return err
}
