package config

import (
	"log/slog"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
)

// Database configures the database of the store and of the events.
type Database struct {
	URL DatabaseURL `json:"url,omitempty" jsonschema:"sqlite: keeps the database in dataDir. postgres://user:password@host:5432/name keeps it on a PostgreSQL server, version 14 or later. Add ?search_path=NAME for a schema of its own. With several hosts (host1:5432,host2:5432) add target_session_attrs=read-write, which finds the primary. Further parameters are those of PostgreSQL's libpq, such as sslmode, sslrootcert, and passfile (a file with the password)."`
}

// DatabaseURL is the URL of the database. It may contain a password, which it hides from printers,
// encoders, and loggers.
type DatabaseURL string

// Reveal returns the URL including the password. Call it only where the connection is made.
func (u DatabaseURL) Reveal() string { return string(u) }

// Postgres reports whether the database is on a PostgreSQL server.
func (u DatabaseURL) Postgres() bool { return isPostgres(string(u)) }

func isPostgres(u string) bool {
	return strings.HasPrefix(u, "postgres://") || strings.HasPrefix(u, "postgresql://")
}

// String returns the URL with its password masked.
func (u DatabaseURL) String() string { return maskPassword(string(u)) }

// MarshalText returns the URL with its password masked, so that encoders don't write it.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText stores text as the URL.
func (u *DatabaseURL) UnmarshalText(text []byte) error {
	*u = DatabaseURL(text)
	return nil
}

// LogValue returns the URL with its password masked, so that loggers don't write it.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// maskPassword masks the password in a URL.
func maskPassword(u string) string {
	scheme, rest, ok := strings.Cut(u, "://")
	// The last @ ends the credentials, even if the password contains an unescaped @.
	at := strings.LastIndex(rest, "@")
	switch {
	case !ok && strings.Contains(u, "@"): // which part is the password nobody knows
		return masked + u[strings.LastIndex(u, "@"):]
	case !ok, at < 0:
		return u
	}
	user, _, ok := strings.Cut(rest[:at], ":")
	if !ok {
		return u
	}
	return scheme + "://" + user + ":" + masked + rest[at:]
}

func (c checker) checkDatabase() error { return CheckDatabaseURL("database.url", c.Database.URL) }

// CheckDatabaseURL returns an error if the value of a setting is not the address of a database. The
// error does not contain the password.
func CheckDatabaseURL(field string, address DatabaseURL) error {
	if address == "sqlite:" {
		return nil
	}
	if !address.Postgres() {
		return fault.InvalidField(field, "The database %q is unknown; use sqlite: or postgres://user:password@host:5432/name.", address)
	}
	u, err := url.Parse(withoutFurtherHosts(address.Reveal()))
	if err != nil && strings.Contains(strings.ToLower(address.Reveal()), "@%2f") {
		return fault.InvalidField(field, "The URL of PostgreSQL has the directory of a socket as its host. Write it as a parameter: postgres://user@/name?host=/run/postgresql.")
	}
	if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return fault.InvalidField(field, "The URL of PostgreSQL cannot be read. It looks like postgres://user:password@host:5432/name; "+
			"a password with / : @ ? # or %% in it has %%2F %%3A %%40 %%3F %%23 or %%25 there, or is in the file of the parameter passfile.")
	}
	if u.Query().Has("sslpassword") {
		return fault.InvalidField(field, "The URL of PostgreSQL has the password of sslkey in a parameter, which logs may show. Set it in the environment variable PGSSLPASSWORD.")
	}
	if u.Query().Has("password") {
		return fault.InvalidField(field, "The URL of PostgreSQL has its password in a parameter, which logs may show. Write it before the host: postgres://user:password@host:5432/name.")
	}
	return nil
}

// withoutFurtherHosts returns a URL with only the first of its hosts, because url.Parse accepts no
// list.
func withoutFurtherHosts(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	from := strings.LastIndex(rest, "@") + 1
	end := from + strings.IndexAny(rest[from:]+"/", "/?#")
	host, _, _ := strings.Cut(rest[from:end], ",")
	return scheme + "://" + rest[:from] + host + rest[end:]
}

// passwordOf returns the password in a URL, or "".
func passwordOf(address string) string {
	u, err := url.Parse(withoutFurtherHosts(address))
	if err != nil || u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}
