package journal

import (
	"context"

	"parley/client/parley"
)

// Durably runs a read on a view and closes it. It answers only when everything that
// the read saw is durable, also with a refusal.
func Durably(ctx context.Context, v View, read func(View) error) error {
	defer v.Close()
	if err := read(v); err != nil {
		if parley.IsRefusal(err) {
			if durable := v.Durable(ctx); durable != nil {
				return durable
			}
		}
		return err
	}
	return v.Durable(ctx)
}
