// PrefixTree: a radix tree over the tokens of every sequence that is resident or about to be: pools, active sessions,
// idle caches, and prompts that are being prefilled right now. It answers "which sequences start like this prompt, and
// how far".
//
// It knows tokens, not cells: how much of a stream is resident is the ledger's business. Sequences under different
// salts never meet. Invariants: every node but a root has a non-empty edge, and more than one child or a stream that
// ends in it; a sequence's stream is the edges from its root to its node. Engine thread only.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/types.h"

namespace roost::kv {

class PrefixTree {
 public:
  struct Match {
    SeqId seq;
    Pos length;  // tokens in common
  };

  PrefixTree();
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  void insert(SeqId seq, const std::string& salt, std::span<const Token> tokens);  // `seq` is not in the tree
  void append(SeqId seq, std::span<const Token> tokens);
  void truncate(SeqId seq, Pos length);
  void erase(SeqId seq);  // nothing to do when it is not there

  bool contains(SeqId seq) const { return streams_.contains(seq); }
  Pos length(SeqId seq) const;
  Tokens tokens(SeqId seq) const;
  std::size_t size() const { return streams_.size(); }

  // All sequences of this salt that have at least `at_least` >= 1 tokens in common with `prompt`, longest first, then
  // by id.
  std::vector<Match> matches(const std::string& salt, std::span<const Token> prompt, Pos at_least) const;

  std::string check_integrity() const;

 private:
  struct Node;
  struct Stream {
    Node* node;
    Pos length;
    std::string salt;
  };

  static void collect(const Node& node, Pos length, std::vector<Match>& out);
  static Node* extend(Node* node, std::span<const Token> tokens);
  static Node* split(Node* node, std::size_t at);
  static void tidy(Node* node);

  std::map<std::string, std::unique_ptr<Node>> roots_;
  std::map<SeqId, Stream> streams_;
};

}  // namespace roost::kv
