package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// FetchOptions configure a [Fetcher].
type FetchOptions struct {
	// Hosts lists the hosts to download from. A name without a port is reached over
	// TLS on port 443. A name or an address with a port is reached with the scheme
	// of the URL; such an address may belong to this machine. "*.example.org" is any name
	// below a name, and "*" any name, but no address.
	Hosts []string
	// Header is sent with each request.
	Header http.Header
	// Time limits one file with its redirects; zero means DefaultFetchTime.
	Time time.Duration
	// Resolve looks up a name; nil means the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that passed the checks; nil means the system's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities to trust; nil means the system's.
	Roots *x509.CertPool
	// Upstream finds the proxy of the network; nil means that of the environment.
	Upstream Upstream

	// unguarded skips the checks of addresses and redirects. Only tests set it, to
	// prove that the checks matter.
	unguarded bool
}

const (
	// DefaultFetchTime is the time limit of one file.
	DefaultFetchTime = 30 * time.Second
	// maxRedirects bounds the redirects of one file.
	maxRedirects = 3
	// answerTimeout limits the time until a host sends its response header.
	answerTimeout = 15 * time.Second
	// maxAnswerHeader bounds the response header, in bytes.
	maxAnswerHeader = 32 << 10
)

// CodeGone is the code of a fault.NotFound for a file that the host does not have, or
// no longer has at this address.
const CodeGone = "file_gone"

// Fetched is a file that was fetched.
type Fetched struct {
	Data []byte
	// MimeType is the type that the host reported, without parameters; it may be empty.
	MimeType string
	// ContentType is what the host reported, with parameters.
	ContentType string
	// URL is the address that answered, after redirects.
	URL string
}

// Fetcher downloads files from listed hosts. It checks every address, also of a
// redirect, when it connects, so a name that points to an internal address gains
// nothing. It is safe for concurrent use.
type Fetcher struct {
	o      FetchOptions
	client *http.Client
}

// NewFetcher returns a fetcher.
func NewFetcher(o FetchOptions) *Fetcher {
	o.Time = cmp.Or(o.Time, DefaultFetchTime)
	if o.Resolve == nil {
		o.Resolve = resolve
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Upstream == nil {
		o.Upstream = http.ProxyFromEnvironment
	}
	f := &Fetcher{o: o}
	f.client = &http.Client{
		Transport: newTransports(&http.Transport{
			DialContext: f.dial, TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true, DisableCompression: true,
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout, MaxResponseHeaderBytes: maxAnswerHeader,
		}, o.Upstream, f.upstream),
		CheckRedirect: func(r *http.Request, before []*http.Request) error {
			switch {
			case len(before) > maxRedirects:
				return fault.New(fault.Denied, "The file has moved more than %d times.", maxRedirects)
			case !o.unguarded && !f.Allows(r.URL):
				return fault.New(fault.Denied, "The file has moved to %s, from which files are not fetched.", r.URL.Host)
			}
			return nil
		},
	}
	return f
}

// Allows reports whether the fetcher may download from a URL.
func (f *Fetcher) Allows(u *url.URL) bool {
	if u.User != nil || u.Hostname() == "" {
		return false
	}
	if u.Port() == "" {
		host := normal(u.Hostname())
		return u.Scheme == "https" && slices.ContainsFunc(f.o.Hosts, func(listed string) bool {
			below, wild := strings.CutPrefix(listed, "*")
			return listed == host || wild && !isAddress(host) && strings.HasSuffix(host, below)
		})
	}
	return (u.Scheme == "http" || u.Scheme == "https") && slices.Contains(f.o.Hosts, u.Host)
}

// Fetch returns the whole file at an address. It fails with a fault.TooLarge if the
// file has more than most bytes.
func (f *Fetcher) Fetch(ctx context.Context, address string, most int64) (Fetched, error) {
	u, err := url.Parse(address)
	if err != nil || !f.Allows(u) {
		return Fetched{}, fault.New(fault.Denied, "It is on a host that files are not fetched from.")
	}
	ctx, cancel := context.WithTimeout(ctx, f.o.Time)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Fetched{}, fmt.Errorf("ask for a file: %w", err)
	}
	maps.Copy(request.Header, f.o.Header)
	request.Header.Set("Accept-Encoding", "identity")
	response, err := f.client.Do(request)
	if err != nil {
		return Fetched{}, failure(ctx, err)
	}
	defer response.Body.Close()
	switch encoding := response.Header.Get("Content-Encoding"); {
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusGone:
		return Fetched{}, &fault.Error{Kind: fault.NotFound, Code: CodeGone, Message: "The file is not there any more, or its address has expired."}
	case response.StatusCode != http.StatusOK:
		return Fetched{}, fault.New(fault.Unavailable, "The host of the file answered with the status %d.", response.StatusCode)
	case encoding != "" && encoding != "identity":
		// Unpacking could produce any size.
		return Fetched{}, fault.New(fault.Denied, "The file came packed (%s), which was not asked for.", strconv.Quote(encoding))
	case response.ContentLength > most:
		return Fetched{}, tooLarge(response.ContentLength, most)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return Fetched{}, failure(ctx, err)
	}
	if int64(len(data)) > most {
		return Fetched{}, fault.New(fault.TooLarge, "It has more than %d bytes, and no larger files are fetched.", most)
	}
	reported := response.Header.Get("Content-Type")
	kind, _, _ := strings.Cut(reported, ";")
	return Fetched{Data: data, MimeType: strings.ToLower(strings.TrimSpace(kind)), ContentType: reported, URL: response.Request.URL.String()}, nil
}

func tooLarge(size, most int64) error {
	return fault.New(fault.TooLarge, "It has %d bytes, and no files with more than %d are fetched.", size, most)
}

// failure turns the error of a download into a fault.
func failure(ctx context.Context, err error) error {
	var known *fault.Error
	// The address may be a signed one, with which anybody gets the file.
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		err = asked.Err
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errRefused):
		return fault.Wrap(fault.Denied, err, "The file is on an address that is not on the public internet.")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Wrap(fault.Timeout, err, "The file did not come in time.")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fault.Wrap(fault.Unavailable, err, "The file could not be fetched.")
}

// upstream returns the proxy for a request to a host that is allowed.
func (f *Fetcher) upstream(r *http.Request) (*url.URL, error) {
	host := normal(r.URL.Hostname())
	how := listing{exact: slices.Contains(f.o.Hosts, host) || slices.Contains(f.o.Hosts, r.URL.Host), internal: f.o.unguarded || f.addressListed(r.URL.Host)}
	return f.o.Upstream.find(r.Context(), r.URL, how, f.o.Resolve)
}

// addressListed reports whether an address is listed with its port. Whoever lists it means it.
func (f *Fetcher) addressListed(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	return err == nil && isAddress(host) && slices.Contains(f.o.Hosts, hostport)
}

// dial connects to a host that is allowed, at an address that is.
func (f *Fetcher) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", hostport, err)
	}
	permit := func(addr netip.Addr) bool {
		return f.o.unguarded || Public(addr) || f.addressListed(hostport)
	}
	return connect(ctx, host, port, f.o.Resolve, func(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
		if !permit(address.Addr()) {
			return nil, errRefused
		}
		return f.o.Dial(ctx, network, address.String())
	})
}

// resolve asks the system.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// connect looks a host up once and tries its addresses; dial decides about
// each of them, and nobody looks the name up again in between.
func connect(ctx context.Context, host, port string, lookup func(context.Context, string) ([]netip.Addr, error), dial func(context.Context, netip.AddrPort) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read port %q: %w", port, err)
	}
	addrs, err := addresses(ctx, host, lookup)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s has no address", host)
	for _, addr := range addrs {
		var conn net.Conn
		if conn, err = dial(ctx, netip.AddrPortFrom(addr, uint16(number))); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("connect to %s: %w", host, err)
}
