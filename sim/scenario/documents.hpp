// How documents are packed into a sequence (training.document_tokens): the model's attention, the checker and the runtime read it.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Documents of a sequence, and tokens of each. A sequence that is one document has itself.
struct PackedDocuments {
    std::int64_t count = 1, tokens = 1;
};

// Where context parallelism deals chunks of every document out to its ranks (ring, allgather), a document is padded to a multiple of
// 2 x context_parallel tokens, as Megatron-Core and Transformer Engine pad packed sequences; a sequence then holds fewer documents. Ulysses
// brings whole sequences together before attention, so it pads none. Rounding may make count x tokens differ from the sequence's length.
PackedDocuments documents_of(const Scenario& scenario);

bool packs_documents(const Scenario& scenario);         // several documents in a sequence
std::int64_t document_unit(const Scenario& scenario);   // tokens that a document is padded to a multiple of; 1: none
std::int64_t padded_document(const Scenario& scenario); // tokens of a document, padded; 0: a sequence is one

// Whether context parallelism deals out chunks of documents rather than of sequences.
bool deals_documents(const Scenario& scenario);

} // namespace orrery
