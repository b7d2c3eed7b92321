package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

// The folder static is the page; katex has the files of the npm package katex that it uses, the
// texts packed, because they are in the program.
//
//go:embed static katex/katex.min.js.gz katex/katex.min.css.gz katex/fonts
var files embed.FS

// policy allows the page to load only its own files. Images may also be pictures that
// a person has just selected, which the browser holds as data: or blob: URLs.
const policy = "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

var types = map[string]string{
	".html":        "text/html; charset=utf-8",
	".css":         "text/css; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".svg":         "image/svg+xml",
	".png":         "image/png",
	".woff2":       "font/woff2",
	".webmanifest": "application/manifest+json",
}

// notFound has the form of the API's errors, because most requests for unknown paths
// come from programs that misspelled a route.
const notFound = `{"error":{"kind":"not_found","code":"not_found","message":"There is nothing at this path.","retryable":false}}` + "\n"

type asset struct {
	kind string
	etag string
	// body and packed return the file as it is and in gzip's format. packed returns nil for a file
	// that is packed by itself.
	body, packed func() []byte
}

// newAsset returns a file of the program and its name. A file whose name ends with .gz is packed.
func newAsset(name string, stored []byte) (string, asset) {
	name, isPacked := strings.CutSuffix(name, ".gz")
	sum := sha256.Sum256(stored)
	given := func() []byte { return stored }
	a := asset{kind: types[path.Ext(name)], etag: `W/"` + hex.EncodeToString(sum[:12]) + `"`, body: given}
	switch {
	case isPacked:
		a.packed, a.body = given, sync.OnceValue(func() []byte { return unpack(stored) })
	case path.Ext(name) == ".woff2", path.Ext(name) == ".png":
		a.packed = func() []byte { return nil }
	default:
		a.packed = sync.OnceValue(func() []byte { return pack(stored) })
	}
	return name, a
}

// pack packs a body when it is first needed: most starts need none.
func pack(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(body)
	if err := errors.Join(err, w.Close()); err != nil { // a buffer accepts everything
		return nil
	}
	return out.Bytes()
}

// unpack returns a file that was packed; a test unpacks all of them.
func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return body
}

// accepts reports whether a client accepts gzip, which it says without a quality of zero.
func accepts(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		if strings.EqualFold(name, "gzip") {
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}

// Handler serves the page at / and its files below /assets/. The page names its files with the version
// of all of them (/assets/VERSION/NAME), so that browsers keep them until an upgrade.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		p, err := loaded()
		a, lasting, ok := p.find(r.URL.Path)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		case !ok:
			h.Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(notFound))
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "This path supports only GET and HEAD.", http.StatusMethodNotAllowed)
			return
		}
		h.Set("ETag", a.etag)
		if lasting {
			h.Set("Cache-Control", "max-age=31536000, immutable")
		} else {
			h.Set("Cache-Control", "no-cache") // browsers revalidate on every load
		}
		if matches(r.Header.Get("If-None-Match"), a.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", a.kind)
		h.Set("Vary", "Accept-Encoding")
		var body []byte
		if accepts(r.Header.Get("Accept-Encoding")) {
			body = a.packed()
		}
		if body != nil {
			h.Set("Content-Encoding", "gzip")
		} else {
			body = a.body()
		}
		h.Set("Content-Length", fmt.Sprint(len(body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body) // an error means that the client has disconnected
		}
	})
}

// page has the files of the page, by path.
type page struct {
	version string
	assets  map[string]asset
}

const (
	// versionBytes is the length of a version; in a path, each byte has two digits.
	versionBytes = 8
	// start is the module that starts the page, and joined the script of it and all that it imports.
	start, joined = "app", "page.js"
)

// loaded is the page: 1 MB that a server needs only when somebody opens it.
var loaded = sync.OnceValues(newPage)

// newPage loads the files. The errors are those of the embedded files, so a test that loads them finds
// each.
func newPage() (page, error) {
	p := page{assets: make(map[string]asset)}
	sum := sha256.New()
	modules := make(map[string][]byte)
	var index []byte
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(sum, "%s %d ", name, len(body)) // a hash accepts everything
		_, _ = sum.Write(body)
		name = strings.TrimPrefix(name, "static/")
		if name == "index.html" {
			index = body
			return nil
		}
		if path.Ext(name) == ".js" {
			modules[name] = body
		}
		name, a := newAsset(name, body)
		p.assets["/assets/"+name] = a
		if name == "icon.svg" {
			p.assets["/favicon.ico"] = a
		}
		return nil
	})
	if err != nil {
		return p, fmt.Errorf("load the files of the page: %w", err)
	}
	script, err := join(modules, start)
	if err != nil {
		return p, err
	}
	_, p.assets["/assets/"+joined] = newAsset(joined, script)
	// The page names its files with their version.
	p.version = hex.EncodeToString(sum.Sum(nil)[:versionBytes])
	_, p.assets["/"] = newAsset("index.html", bytes.ReplaceAll(index, []byte(`"./assets/`), []byte(`"./assets/`+p.version+`/`)))
	return p, nil
}

// find returns the file at a path. lasting reports that the path names the version, so that the file
// there never changes. A page from before an upgrade gets the present files.
func (p page) find(at string) (a asset, lasting, ok bool) {
	if a, ok = p.assets[at]; ok {
		return a, false, true
	}
	version, name, _ := strings.Cut(strings.TrimPrefix(at, "/assets/"), "/")
	if raw, err := hex.DecodeString(version); err != nil || len(raw) != versionBytes {
		return a, false, false
	}
	a, ok = p.assets["/assets/"+name]
	return a, version == p.version, ok
}

func matches(header, etag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == strings.TrimPrefix(etag, "W/") || one == "*" {
			return true
		}
	}
	return false
}
