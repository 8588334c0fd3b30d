package projection

import (
	"context"
	"time"

	"parley/actors/directory"
	"parley/client/parley"
	"parley/journal"
)

// Agents finds a page of cards. The errors are those of directory.Index.Search, and
// parley.ErrOverloaded while the index is built.
func (d *Directory) Agents(q directory.Query) (*directory.Result, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	q.NowMS = d.o.Clock().UnixMilli()
	return d.agents.Search(q)
}

// Groups finds a page of public groups, with the same errors. Of Query, a text, the document that
// comes first, a limit and a position count.
func (d *Directory) Groups(q directory.Query) (*directory.Result, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	q.NowMS = d.o.Clock().UnixMilli()
	return d.groups.Search(q)
}

// Categories returns the categories of all cards, the most frequent first.
func (d *Directory) Categories() ([]directory.Count, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	return d.agents.Categories(), nil
}

// Version returns the number of changes of what Agents and Categories search.
func (d *Directory) Version() uint64 { return d.agents.Generation() }

func (d *Directory) ready() error {
	select {
	case <-d.built:
		return nil
	default:
		return errBuilding
	}
}

// Meaning returns the vector of a query, and the cosine below which a card has nothing in
// common with it. The error is that of the provider.
func (d *Directory) Meaning(ctx context.Context, text string) (vector []float32, threshold float32, err error) {
	if cached, ok := d.queries.GetIfPresent(text); ok {
		return cached, d.o.Embedder.Threshold(), nil
	}
	vectors, err := d.o.Embedder.Embed(ctx, []string{text})
	if err != nil {
		return nil, 0, err
	}
	d.queries.Set(text, vectors[0])
	return vectors[0], d.o.Embedder.Threshold(), nil
}

// makeVectors makes the vectors that cards lack, whenever changes were read.
func (d *Directory) makeVectors() {
	for {
		select {
		case <-d.embed:
		case <-d.ctx.Done():
			return
		}
		for more := true; more && d.ctx.Err() == nil; {
			var err error
			if more, err = d.makeSome(); err == nil {
				continue
			}
			d.o.Logger.Warn("vectors of cards could not be made and are tried again; until then words find these cards", "provider", d.o.Embedder.ID(), "error", err)
			select {
			case <-time.After(retryAfter):
			case <-d.ctx.Done():
			}
			more = true
		}
	}
}

// makeSome makes the vectors of some cards; more is false if none lacks one.
func (d *Directory) makeSome() (more bool, err error) {
	ids := d.agents.WithoutVector(batch)
	if len(ids) == 0 {
		return false, nil
	}
	ids, texts, err := textsOf(d.o.Journal, ids)
	if err != nil || len(texts) == 0 {
		return false, err
	}
	vectors, err := d.o.Embedder.Embed(d.ctx, texts)
	if err != nil {
		return true, err
	}
	set := 0
	for i, id := range ids {
		ok, err := d.agents.SetVector(id, texts[i], vectors[i])
		if err != nil {
			return true, err
		}
		if ok {
			set++
		}
	}
	// Cards that have changed since come again once they were read.
	return set > 0, nil
}

// textsOf returns the texts of cards that vectors are made of, without cards that are gone.
func textsOf(j journal.Journal, all []parley.AgentID) (ids []parley.AgentID, texts []string, err error) {
	v := j.View()
	defer v.Close()
	for _, id := range all {
		doc, _, err := docOf(v, id)
		if err != nil && !parley.IsRefusal(err) {
			return nil, nil, err
		}
		if doc != nil {
			ids, texts = append(ids, id), append(texts, doc.EmbeddingText())
		}
	}
	return ids, texts, nil
}
