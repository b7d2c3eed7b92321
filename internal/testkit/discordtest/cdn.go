package discordtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// urlLife is how long a signed attachment URL is valid. Discord documents that the URLs
// expire (API Reference, "Signed Attachment CDN URLs"), but not when.
const urlLife = 24 * time.Hour

type storedFile struct {
	data        []byte
	contentType string
}

// storeLocked stores a file and returns its attachment.
func (s *core) storeLocked(channelID, name, contentType string, data []byte) Attachment {
	id := s.mintLocked()
	if contentType == "" || contentType == "application/octet-stream" {
		if contentType = mime.TypeByExtension(path.Ext(name)); contentType == "" {
			contentType = http.DetectContentType(data)
		}
	}
	at := "/attachments/" + channelID + "/" + id + "/" + url.PathEscape(name)
	s.files[at] = storedFile{data: data, contentType: contentType}
	return Attachment{ID: id, Name: name, ContentType: contentType, Size: len(data), URL: s.CDNURL + at}
}

// uploadLocked stores a file of a person. Discord reduces its name to ASCII characters and
// keeps the rest as the title (Message Resource, "Attachment Object").
func (f File) uploadLocked(s *core, channelID string) Attachment {
	name := strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return -1
		}
		return r
	}, f.Name)
	a := s.storeLocked(channelID, name, f.ContentType, f.Data)
	if name != f.Name {
		a.Title = strings.TrimSuffix(f.Name, path.Ext(f.Name))
	}
	a.Description = f.Description
	return a
}

// wireAttachment encodes an attachment with a newly signed URL, because Discord signs
// URLs whenever a client reads them.
func (s *core) wireAttachment(a Attachment) object {
	signed := s.SignURL(a.URL)
	o := object{
		"id": a.ID, "filename": a.Name, "content_type": a.ContentType, "size": a.Size, "url": signed, "proxy_url": signed, "flags": 0,
	}
	if a.Title != "" {
		o["title"] = a.Title
	}
	if a.Description != "" {
		o["description"] = a.Description
	}
	return o
}

// SignURL signs a CDN URL as of now: it sets the query parameters ex, is and hm.
func (s *core) SignURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic("discordtest: sign " + address) // a mistake in the test
	}
	issued := s.o.Now()
	q := url.Values{"ex": {strconv.FormatInt(issued.Add(urlLife).Unix(), 16)}, "is": {strconv.FormatInt(issued.Unix(), 16)}}
	q.Set("hm", s.sign(u.EscapedPath(), q.Get("ex"), q.Get("is")))
	u.RawQuery = q.Encode()
	return u.String()
}

func (s *core) sign(path, ex, is string) string {
	mac := hmac.New(sha256.New, fmt.Append(nil, "the fake CDN", s.term.Load()))
	fmt.Fprint(mac, path, "?", ex, "&", is)
	return hex.EncodeToString(mac.Sum(nil))
}

// ExpireFiles expires all URLs signed so far.
func (s Faults) ExpireFiles() { s.term.Add(1) }

// maxRefreshed is the maximum number of URLs in one refresh call.
const maxRefreshed = 50

// refreshURLs signs attachment URLs again. Discord documents neither the route nor its
// limit; this follows the behavior of Discord's own client.
func refreshURLs(c *call) answer {
	var in struct {
		URLs []string `json:"attachment_urls"`
	}
	if json.Unmarshal(c.body, &in) != nil {
		return bodyNotJSON
	}
	if len(in.URLs) == 0 || len(in.URLs) > maxRefreshed {
		return invalid("attachment_urls", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 50 in length.")
	}
	renewed := []object{}
	for _, address := range in.URLs {
		if !strings.HasPrefix(address, c.s.CDNURL+"/attachments/") {
			return invalid("attachment_urls", "ATTACHMENT_URL_INVALID", "Not an attachment's address")
		}
		renewed = append(renewed, object{"original": address, "refreshed": c.s.SignURL(address)})
	}
	return ok(object{"refreshed_urls": renewed})
}

func (s *core) serveFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	expires, err := strconv.ParseInt(q.Get("ex"), 16, 64)
	s.mu.Lock()
	f := s.takeFaultLocked("GET /cdn", r.URL.Path)
	now := s.o.Now()
	file, found := s.files[r.URL.EscapedPath()[len("/cdn"):]]
	s.mu.Unlock()
	if f != nil {
		if f.Delay > 0 && !s.pause(r, f.Delay) {
			return
		}
		if f.Cut || f.CutAfter {
			panic(http.ErrAbortHandler)
		}
		if f.Status != 0 {
			http.Error(w, f.message(), f.Status)
			return
		}
	}
	valid := err == nil && now.Unix() < expires && hmac.Equal([]byte(q.Get("hm")), []byte(s.sign(r.URL.EscapedPath(), q.Get("ex"), q.Get("is"))))
	if !found || !valid {
		http.Error(w, "This content is no longer available.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", file.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(file.data)))
	_, _ = w.Write(file.data) // the client may have disconnected
}
