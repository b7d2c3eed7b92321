package discordtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"
)

// urlLife is how long a signed address of an attachment works (Reference,
// "Signed Attachment CDN URLs").
const urlLife = 24 * time.Hour

type storedFile struct {
	data        []byte
	contentType string
}

// storeLocked keeps a file and gives the attachment that shows it.
func (s *Server) storeLocked(channelID, name, contentType string, data []byte) Attachment {
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

// wireAttachment signs the address anew, as Discord does whenever it is read.
func (s *Server) wireAttachment(a Attachment) object {
	signed := s.SignURL(a.URL)
	return object{
		"id": a.ID, "filename": a.Name, "content_type": a.ContentType, "size": a.Size, "url": signed, "proxy_url": signed, "flags": 0,
	}
}

// SignURL gives an address of the CDN the ex, is and hm of now.
func (s *Server) SignURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic("discordtest: sign " + address) // a test's mistake
	}
	issued := s.o.Now()
	q := url.Values{"ex": {strconv.FormatInt(issued.Add(urlLife).Unix(), 16)}, "is": {strconv.FormatInt(issued.Unix(), 16)}}
	q.Set("hm", sign(u.EscapedPath(), q.Get("ex"), q.Get("is")))
	u.RawQuery = q.Encode()
	return u.String()
}

func sign(path, ex, is string) string {
	mac := hmac.New(sha256.New, []byte("the fake CDN"))
	fmt.Fprint(mac, path, "?", ex, "&", is)
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
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
	valid := err == nil && now.Unix() < expires && hmac.Equal([]byte(q.Get("hm")), []byte(sign(r.URL.EscapedPath(), q.Get("ex"), q.Get("is"))))
	if !found || !valid {
		http.Error(w, "This content is no longer available.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", file.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(file.data)))
	_, _ = w.Write(file.data) // a client that went away misses it
}
