// Package fallback calls the first model of a chain that works.
//
// It promises:
//
//   - [State.After] and [Pick] are pure. They decide when a breaker opens and which
//     candidate is called.
//   - There is one breaker for each endpoint, model, and key, shared by all requests of
//     the process ([Breakers]). It opens when a provider asks to wait, for that long; at
//     once when it refuses the key, the account, or the model; and after several
//     failures in a row.
//   - A chain switches only between calls: an answer that broke off is not continued by
//     another model. It keeps the candidate that works until that one fails.
//   - If a provider asked for a wait, it is not called before. If a candidate only failed
//     and no other one is left, it is called in spite of an open breaker.
//   - If no candidate can answer, the error says why for each.
//
// # Concurrency
//
// A [Chain] belongs to one run and is used by one goroutine, except Info. [Breakers] is
// safe for concurrent use; its mutex is a leaf.
package fallback
