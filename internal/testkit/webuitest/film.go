package webuitest

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"slices"
	"time"
)

const (
	// colors is the number of a GIF's colours. A page has few, and shades of its letters.
	colors = 256
	// The limits of a flash, from WCAG 2.2: a quarter of the picture changes its luminance by
	// a tenth.
	flashArea, flashChange = 0.25, 0.1
)

// Film is a sequence of pictures of the same size that becomes an animation. The zero
// value is an empty film.
type Film struct {
	frames []*image.RGBA
	shown  []time.Duration
}

// Add appends a picture made of PNGs, one below the other, that is shown for a time.
func (f *Film) Add(shown time.Duration, pngs ...[]byte) error {
	var parts []image.Image
	size := image.Point{}
	for _, data := range pngs {
		part, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("read a picture: %w", err)
		}
		parts = append(parts, part)
		size.X = max(size.X, part.Bounds().Dx())
		size.Y += part.Bounds().Dy()
	}
	if len(f.frames) > 0 && f.frames[0].Bounds().Size() != size {
		return fmt.Errorf("a picture of %v follows one of %v", size, f.frames[0].Bounds().Size())
	}
	frame, y := image.NewRGBA(image.Rectangle{Max: size}), 0
	for _, part := range parts {
		draw.Draw(frame, image.Rect(0, y, size.X, size.Y), part, part.Bounds().Min, draw.Src)
		y += part.Bounds().Dy()
	}
	if last := len(f.frames) - 1; last >= 0 && bytes.Equal(f.frames[last].Pix, frame.Pix) {
		f.shown[last] += shown
		return nil
	}
	f.frames, f.shown = append(f.frames, frame), append(f.shown, shown)
	return nil
}

// Hold shows the last picture longer.
func (f *Film) Hold(d time.Duration) {
	if last := len(f.shown) - 1; last >= 0 {
		f.shown[last] += d
	}
}

// Length returns how long the film lasts.
func (f *Film) Length() (d time.Duration) {
	for _, shown := range f.shown {
		d += shown
	}
	return d
}

// Flashes returns the largest number of times within one second that a large part of the
// picture becomes lighter or darker. WCAG allows three.
func (f *Film) Flashes() (most int) {
	var at time.Duration
	var flashes []time.Duration
	for i := range f.frames {
		if i > 0 && flash(f.frames[i-1], f.frames[i]) {
			flashes = append(flashes, at)
			flashes = slices.DeleteFunc(flashes, func(t time.Duration) bool { return t <= at-time.Second })
			most = max(most, len(flashes))
		}
		at += f.shown[i]
	}
	return most
}

func flash(a, b *image.RGBA) bool {
	lighter, darker := 0, 0
	for i := 0; i < len(a.Pix); i += 4 {
		switch change := luminance(b.Pix[i:]) - luminance(a.Pix[i:]); {
		case change >= flashChange:
			lighter++
		case change <= -flashChange:
			darker++
		}
	}
	return float64(max(lighter, darker)) >= flashArea*float64(len(a.Pix)/4)
}

// luminance returns about how light a pixel is, from 0 to 1.
func luminance(pix []uint8) float64 {
	return (0.2126*float64(pix[0]) + 0.7152*float64(pix[1]) + 0.0722*float64(pix[2])) / 255
}

// GIF returns the film as an animation that repeats. Each picture holds only what changed.
func (f *Film) GIF() ([]byte, error) {
	if len(f.frames) == 0 {
		return nil, fmt.Errorf("the film is empty")
	}
	toPalette := f.palette()
	out := &gif.GIF{}
	var last *image.Paletted
	for i, frame := range f.frames {
		now := toPalette(frame)
		changed := now.Bounds()
		if last != nil {
			changed = difference(last, now)
		}
		last = now
		delay := int(f.shown[i] / (10 * time.Millisecond))
		if changed.Empty() { // the change was smaller than a step of the palette
			out.Delay[len(out.Delay)-1] += delay
			continue
		}
		part := image.NewPaletted(changed, now.Palette)
		draw.Draw(part, changed, now, changed.Min, draw.Src)
		out.Image, out.Delay, out.Disposal = append(out.Image, part), append(out.Delay, delay), append(out.Disposal, gif.DisposalNone)
	}
	var data bytes.Buffer
	if err := gif.EncodeAll(&data, out); err != nil {
		return nil, fmt.Errorf("write the animation: %w", err)
	}
	return data.Bytes(), nil
}

// palette returns a function that reduces a picture to the most frequent colours of the film.
func (f *Film) palette() func(*image.RGBA) *image.Paletted {
	count := map[color.RGBA]int{}
	for _, frame := range f.frames {
		for i := 0; i < len(frame.Pix); i += 4 {
			count[color.RGBA{frame.Pix[i], frame.Pix[i+1], frame.Pix[i+2], 255}]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range frequent[:min(colors, len(frequent))] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	return func(frame *image.RGBA) *image.Paletted {
		out := image.NewPaletted(frame.Bounds(), palette)
		for i := range out.Pix {
			c := color.RGBA{frame.Pix[4*i], frame.Pix[4*i+1], frame.Pix[4*i+2], 255}
			index, known := nearest[c]
			if !known {
				index = uint8(palette.Index(c))
				nearest[c] = index
			}
			out.Pix[i] = index
		}
		return out
	}
}

// difference returns the smallest rectangle outside of which two pictures are the same.
func difference(a, b *image.Paletted) (changed image.Rectangle) {
	width := b.Bounds().Dx()
	for y := range b.Bounds().Dy() {
		rowA, rowB := a.Pix[y*a.Stride:][:width], b.Pix[y*b.Stride:][:width]
		if bytes.Equal(rowA, rowB) {
			continue
		}
		first, last := 0, width
		for rowA[first] == rowB[first] {
			first++
		}
		for rowA[last-1] == rowB[last-1] {
			last--
		}
		changed = changed.Union(image.Rect(first, y, last, y+1))
	}
	return changed
}
