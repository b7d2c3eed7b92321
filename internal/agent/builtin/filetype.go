package builtin

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// fileTypes are the extensions that are known by their type, the usual one
// first; what a machine has installed must not change them.
var fileTypes = map[string][]string{
	"application/gzip":                               {".gz", ".tgz"},
	"application/json":                               {".json"},
	"application/msword":                             {".doc"},
	"application/pdf":                                {".pdf"},
	"application/rtf":                                {".rtf"},
	"application/vnd.ms-excel":                       {".xls"},
	"application/vnd.ms-powerpoint":                  {".ppt"},
	"application/vnd.oasis.opendocument.spreadsheet": {".ods"},
	"application/vnd.oasis.opendocument.text":        {".odt"},
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": {".pptx"},
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         {".xlsx"},
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   {".docx"},
	"application/x-tar": {".tar"},
	"application/xml":   {".xml"},
	"application/yaml":  {".yaml", ".yml"},
	"application/zip":   {".zip"},
	"audio/flac":        {".flac"},
	"audio/mp4":         {".m4a"},
	"audio/mpeg":        {".mp3"},
	"audio/ogg":         {".ogg", ".oga", ".opus"},
	"audio/wav":         {".wav"},
	"image/avif":        {".avif"},
	"image/bmp":         {".bmp"},
	"image/gif":         {".gif"},
	"image/heic":        {".heic"},
	"image/jpeg":        {".jpg", ".jpeg"},
	"image/png":         {".png"},
	"image/svg+xml":     {".svg"},
	"image/tiff":        {".tiff", ".tif"},
	"image/webp":        {".webp"},
	"text/calendar":     {".ics"},
	"text/css":          {".css"},
	"text/csv":          {".csv"},
	"text/html":         {".html", ".htm"},
	"text/javascript":   {".js", ".mjs"},
	"text/markdown":     {".md"},
	"text/plain":        {".txt", ".log"},
	"video/mp4":         {".mp4"},
	"video/quicktime":   {".mov"},
	"video/webm":        {".webm"},
}

// otherWords are types that are written in more than one way.
var otherWords = map[string]string{
	"application/x-gzip": "application/gzip", "application/x-zip-compressed": "application/zip", "application/x-yaml": "application/yaml",
	"audio/mp3": "audio/mpeg", "audio/wave": "audio/wav", "audio/x-wav": "audio/wav", "application/ogg": "audio/ogg",
	"image/jpg": "image/jpeg", "text/xml": "application/xml", "application/javascript": "text/javascript",
}

// unsaid are types that what a file holds has when it says little: the name
// knows more then.
var unsaid = []string{"application/octet-stream", "text/plain", "application/zip", "application/gzip", "application/xml"}

// typeOf is the media type of a file by what it holds, then by its name.
func typeOf(data []byte, name string) string {
	held := plainType(http.DetectContentType(data))
	if !slices.Contains(unsaid, held) {
		return held
	}
	named := typeOfName(name)
	group, _, _ := strings.Cut(named, "/")
	isText := held == "text/plain" && named != "image/svg+xml"
	if named == "" || isText && (slices.Contains([]string{"image", "audio", "video"}, group) || named == "application/pdf") {
		return held
	}
	return named
}

func typeOfName(name string) string {
	ext := strings.ToLower(path.Ext(name))
	for kind, exts := range fileTypes {
		if ext != "" && slices.Contains(exts, ext) {
			return kind
		}
	}
	return ""
}

// plainType is a media type in its usual word, without parameters.
func plainType(kind string) string {
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if usual, ok := otherWords[kind]; ok {
		return usual
	}
	return kind
}

// extension is what the name of a downloaded file ends with: by the type that
// its source said, then by its name, then by its address.
func extension(kind, name, address string) string {
	if exts := fileTypes[plainType(kind)]; len(exts) > 0 {
		return exts[0]
	}
	if ext := cleanExt(name); ext != "" {
		return ext
	}
	if u, err := url.Parse(address); err == nil {
		return cleanExt(u.Path)
	}
	return ""
}

// maxExt bounds an extension, with its dot.
const maxExt = 12

// cleanExt is the extension of a name, if it is of letters and digits.
func cleanExt(name string) string {
	ext := strings.ToLower(path.Ext(name))
	if len(ext) < 2 || len(ext) > maxExt || strings.Trim(ext[1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return ext
}
