package webuitest

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"testing"
	"time"
)

// plain returns a picture of one grey, with a dot of another one.
func plain(t *testing.T, grey, dot uint8) []byte {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, 20, 10))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.Gray{grey}), image.Point{}, draw.Src)
	picture.SetGray(3, 4, color.Gray{dot})
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

func TestAnAnimationHoldsWhatChanged(t *testing.T) {
	var f Film
	for _, dot := range []uint8{0, 0, 100, 200} {
		if err := f.Add(100*time.Millisecond, plain(t, 255, dot), plain(t, 255, 255)); err != nil {
			t.Fatal(err)
		}
	}
	f.Hold(time.Second)
	data, err := f.GIF()
	if err != nil {
		t.Fatal(err)
	}
	got, err := gif.DecodeAll(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Image) != 3 || got.Delay[0] != 20 || got.Delay[2] != 110 || got.Config.Height != 20 {
		t.Errorf("%d pictures of height %d with the delays %v, want three of 20, the first for 20, the last for 110 hundredths", len(got.Image), got.Config.Height, got.Delay)
	}
	if want := image.Rect(3, 4, 4, 5); got.Image[1].Bounds() != want {
		t.Errorf("the second picture covers %v, want only the dot, %v", got.Image[1].Bounds(), want)
	}
	if f.Flashes() != 0 {
		t.Errorf("a dot that changes counts as %d flashes", f.Flashes())
	}
	if err := f.Add(time.Second, plain(t, 255, 0)); err == nil {
		t.Error("a picture of another size is accepted")
	}
}

func TestControlAFilmThatFlashesIsFound(t *testing.T) {
	var f Film
	for i := range 20 {
		if err := f.Add(100*time.Millisecond, plain(t, uint8(255*(i%2)), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Flashes(); got != 10 {
		t.Errorf("a change each tenth of a second counts as %d in a second, want 10", got)
	}
}
