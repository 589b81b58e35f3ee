package sluice

import (
	"crypto/rand"
	"encoding/binary"
)

// seeds draws from the system: two programs started together must not write the same.
var seeds systemSeeds

type systemSeeds struct{}

func (systemSeeds) next() uint64 {
	var bytes [8]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err) // no random numbers in this system: nothing is safe
	}
	return binary.LittleEndian.Uint64(bytes[:])
}
