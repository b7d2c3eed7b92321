package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/pairing"
	"lilac/internal/foundation/fault"
)

// Pairings decides which strangers may send private messages.
type Pairings interface {
	List(ctx context.Context) ([]pairing.Row, error)
	// Settle finds the person by the code or the user's id.
	Settle(ctx context.Context, name string, allow bool) (pairing.Row, error)
}

// pairings serves the people who asked.
type pairings struct{ service Pairings }

func (s *pairings) available() error {
	if s.service == nil {
		return fault.New(fault.Unavailable, "No platform with private messages is connected.")
	}
	return nil
}

type pairingList struct {
	Pairings []pairing.Row `json:"pairings"`
}

func (s *pairings) list(r *http.Request) (pairingList, error) {
	found, err := s.service.List(r.Context())
	return pairingList{append([]pairing.Row{}, found...)}, err
}

// settle returns the function that allows or denies the messages of a person.
func (s *pairings) settle(allow bool) func(*http.Request, struct{}) (pairing.Row, error) {
	return func(r *http.Request, _ struct{}) (pairing.Row, error) {
		return s.service.Settle(r.Context(), r.PathValue("code"), allow)
	}
}
