// Package core is the layer of decisions: sessions, the router, environment
// events and rules, relays, the outbox, workflows, tasks, and the sources of
// events.
//
// Each core is a pure decider and a thin service; package kernel runs the
// decider. A core declares the few methods that it needs from a collaborator, in
// its own types, and never imports the store or a surface. Packages of this layer
// import foundation, model, engine, agent, and the neighbors that the import test
// lists.
package core
