package webui_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// noise returns a PNG that cannot be compressed.
func noise(t *testing.T, width, height int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		m.Pix[i] = uint8(rand.Uint32())
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// widePNG returns a picture in base64 that is wider than models accept.
func widePNG(t *testing.T) string { return base64.StdEncoding.EncodeToString(noise(t, 8100, 3)) }

// Models accept pictures of 5 MB in base64 and 8000 pixels, and no HEIC pictures. The page makes a JPEG of
// others, if the browser can read them; Safari reads HEIC. In this test, a PNG has the name of a HEIC picture.
func TestPicturesAreMadeFitForModels(t *testing.T) {
	t.Parallel()
	f, p := talk(t)
	dir := t.TempDir()
	var paths []string
	for _, one := range []struct {
		name string
		data []byte
	}{
		{"heavy.png", noise(t, 2700, 600)},
		{"wide.png", noise(t, 8100, 3)},
		{"fit.png", noise(t, 20, 10)},
		{"IMG_1.HEIC", noise(t, 30, 20)},
		{"large.jpeg", append(noise(t, 2000, 1500), make([]byte, 4<<20)...)},
	} {
		paths = append(paths, filepath.Join(dir, one.name))
		if err := os.WriteFile(paths[len(paths)-1], one.data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Do(chromedp.SetUploadFiles("#picker", paths))
	p.Until("they are listed as they are sent", listed+" === 'heavy.jpg converted to JPEG ✕,wide.jpg converted to JPEG ✕,fit.png ✕,IMG_1.jpg converted to JPEG ✕,large.jpg converted to JPEG ✕'")
	p.Until("nothing is wrong", "document.getElementById('problem').hidden")
	p.Say("look")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	files, _ := f.prompts[0]["attachments"].([]any)
	for i, want := range []image.Point{{2576, 572}, {2576, 1}, {20, 10}, {30, 20}, {2000, 1500}} {
		file := files[i].(object)
		data, err := base64.StdEncoding.DecodeString(file["dataBase64"].(string))
		if err != nil {
			t.Fatal(err)
		}
		decode, kind := jpeg.Decode, "image/jpeg"
		if file["filename"] == "fit.png" {
			decode, kind = png.Decode, "image/png"
		}
		m, err := decode(bytes.NewReader(data))
		if err != nil || m.Bounds().Size() != want || file["mimeType"] != kind {
			t.Errorf("%s has the type %s and the size %v: %v; want %v", file["filename"], file["mimeType"], m.Bounds().Size(), err, want)
		}
	}
}

// Chromium reads no HEIC pictures. The file is still attached, for the agent's programs.
func TestAPictureThatNeitherModelNorBrowserReadsIsExplained(t *testing.T) {
	t.Parallel()
	_, p := talk(t)
	attach(t, p, "IMG_1.HEIC")
	p.Until("it says what to do", "document.getElementById('problem').innerText.includes('Most Compatible')")
	p.Until("it is attached", listed+" === 'IMG_1.HEIC ✕'")
}
