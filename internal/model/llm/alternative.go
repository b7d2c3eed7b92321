package llm

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"

	"lilac/internal/foundation/fault"
)

// Alternative returns a model that calls first, and second if the endpoint refuses the API
// of first. learned remembers the refusal. Both must describe the same model.
func Alternative(first, second Model, learned *Learned) Model {
	return &alternative{Model: first, other: second, learned: learned}
}

type alternative struct {
	Model
	other   Model
	learned *Learned
}

// Info implements [Model]. The two APIs differ in what they can send, for example recordings.
func (a *alternative) Info() Info {
	if a.learned.Facts().OtherAPI {
		return a.other.Info()
	}
	return a.Model.Info()
}

// Stream implements [Model].
func (a *alternative) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	first, second, other := a.Model, a.other, false
	if a.learned.Facts().OtherAPI {
		first, second, other = second, first, true
	}
	return func(yield func(Chunk, error) bool) {
		begun := false
		for c, err := range first.Stream(ctx, req) {
			if err != nil && !begun && refusesAPI(err) {
				a.streamSecond(ctx, second, !other, req, err, yield)
				return
			}
			begun = true
			if !yield(c, err) {
				return
			}
		}
	}
}

// streamSecond calls the API that was not called first; other means that it is not the chosen one.
// If that fails as well, the error is that of the first, unless the second one shows that the
// endpoint has it.
func (a *alternative) streamSecond(ctx context.Context, second Model, other bool, req Request, first error, yield func(Chunk, error) bool) {
	begun := false
	for c, err := range second.Stream(ctx, req) {
		if err != nil && !begun {
			switch fault.KindOf(err) {
			case fault.Unauthenticated, fault.Denied, fault.RateLimited:
				first = err
			}
			yield(Chunk{}, first)
			return
		}
		if !begun {
			begun = true
			a.learned.update(func(f *Facts) { f.OtherAPI = other })
		}
		if !yield(c, err) {
			return
		}
	}
}

// refusesAPI reports whether an error says that the endpoint has another API only.
func refusesAPI(err error) bool {
	var e *ProviderError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if !strings.Contains(strings.ToLower(e.Message), "model") { // else the model is unknown
			return true
		}
	}
	return (e.Status == 0 || e.Status >= 400 && e.Status < 500) && suggestsOtherAPI(e.Message)
}

// suggestsOtherAPI reports whether a refusal recommends one of OpenAI's two APIs.
func suggestsOtherAPI(message string) bool { return otherAPI().MatchString(message) }
