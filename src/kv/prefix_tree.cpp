#include "kv/prefix_tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/check.h"
#include "kv/prefix_hash.h"

namespace roost::kv {

struct PrefixTree::Node {
  Node* parent = nullptr;
  Tokens edge;                                      // tokens from the parent to here
  std::map<Token, std::unique_ptr<Node>> children;  // by the first token of their edge
  std::set<SeqId> ends;                             // streams that end here
};

PrefixTree::PrefixTree() = default;
PrefixTree::~PrefixTree() = default;

// Cuts the edge into `node` after `at` tokens; returns the new node above.
PrefixTree::Node* PrefixTree::split(Node* node, std::size_t at) {
  Node* parent = node->parent;
  auto& place = parent->children.at(node->edge.front());
  auto upper = std::make_unique<Node>();
  upper->parent = parent;
  upper->edge.assign(node->edge.begin(), node->edge.begin() + static_cast<std::ptrdiff_t>(at));
  auto lower = std::move(place);
  lower->edge.erase(lower->edge.begin(), lower->edge.begin() + static_cast<std::ptrdiff_t>(at));
  lower->parent = upper.get();
  const Token first = lower->edge.front();
  upper->children.emplace(first, std::move(lower));
  place = std::move(upper);
  return place.get();
}

// The node at the end of `tokens` below `node`; made where it is not there.
PrefixTree::Node* PrefixTree::extend(Node* node, std::span<const Token> tokens) {
  while (!tokens.empty()) {
    const auto found = node->children.find(tokens.front());
    if (found == node->children.end()) {
      auto leaf = std::make_unique<Node>();
      leaf->parent = node;
      leaf->edge.assign(tokens.begin(), tokens.end());
      Node* result = leaf.get();
      node->children.emplace(tokens.front(), std::move(leaf));
      return result;
    }
    Node* child = found->second.get();
    const auto common = static_cast<std::size_t>(common_prefix(child->edge, tokens));
    node = common < child->edge.size() ? split(child, common) : child;
    tokens = tokens.subspan(common);
  }
  return node;
}

// After a stream left `node`: removes nodes that are no longer needed.
void PrefixTree::tidy(Node* node) {
  while (node->parent != nullptr && node->ends.empty() && node->children.empty()) {
    Node* parent = node->parent;
    parent->children.erase(Token{node->edge.front()});
    node = parent;
  }
  if (node->parent == nullptr || !node->ends.empty() || node->children.size() != 1) return;
  // One way through: join with the only child.
  auto child = std::move(node->children.begin()->second);
  node->children.clear();
  node->edge.insert(node->edge.end(), child->edge.begin(), child->edge.end());
  child->edge = std::move(node->edge);
  child->parent = node->parent;
  const Token first = child->edge.front();
  child->parent->children.at(first) = std::move(child);
}

void PrefixTree::insert(SeqId seq, const std::string& salt, std::span<const Token> tokens) {
  ROOST_CHECK(!contains(seq), "a sequence has one stream");
  auto& root = roots_[salt];
  if (root == nullptr) root = std::make_unique<Node>();
  Node* node = extend(root.get(), tokens);
  node->ends.insert(seq);
  streams_.emplace(seq, Stream{node, static_cast<Pos>(tokens.size()), salt});
}

void PrefixTree::append(SeqId seq, std::span<const Token> tokens) {
  if (tokens.empty()) return;
  Stream& stream = streams_.at(seq);
  Node* node = stream.node;
  if (node->parent != nullptr && node->children.empty() && node->ends.size() == 1) {
    node->edge.insert(node->edge.end(), tokens.begin(), tokens.end());  // the usual case: a leaf of its own
  } else {
    Node* end = extend(node, tokens);
    node->ends.erase(seq);
    end->ends.insert(seq);
    stream.node = end;
    tidy(node);
  }
  stream.length += static_cast<Pos>(tokens.size());
}

void PrefixTree::truncate(SeqId seq, Pos length) {
  const Stream stream = streams_.at(seq);
  ROOST_CHECK(length >= 0 && length <= stream.length);
  if (length == stream.length) return;
  Tokens kept = tokens(seq);
  kept.resize(static_cast<std::size_t>(length));
  erase(seq);
  insert(seq, stream.salt, kept);
}

void PrefixTree::erase(SeqId seq) {
  const auto it = streams_.find(seq);
  if (it == streams_.end()) return;
  it->second.node->ends.erase(seq);
  tidy(it->second.node);
  const auto root = roots_.find(it->second.salt);
  if (root->second->children.empty() && root->second->ends.empty()) roots_.erase(root);
  streams_.erase(it);
}

Pos PrefixTree::length(SeqId seq) const {
  const auto it = streams_.find(seq);
  return it == streams_.end() ? 0 : it->second.length;
}

Tokens PrefixTree::tokens(SeqId seq) const {
  std::vector<const Node*> path;
  for (const Node* n = streams_.at(seq).node; n->parent != nullptr; n = n->parent) path.push_back(n);
  Tokens result;
  for (auto it = path.rbegin(); it != path.rend(); ++it)
    result.insert(result.end(), (*it)->edge.begin(), (*it)->edge.end());
  return result;
}

void PrefixTree::collect(const Node& node, Pos length, std::vector<Match>& out) {
  for (const SeqId seq : node.ends) out.push_back({seq, length});
  for (const auto& [token, child] : node.children) collect(*child, length, out);
}

std::vector<PrefixTree::Match> PrefixTree::matches(const std::string& salt, std::span<const Token> prompt,
                                                   Pos at_least) const {
  ROOST_CHECK(at_least >= 1);
  std::vector<Match> out;
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return out;
  const Node* node = root->second.get();
  Pos depth = 0;
  while (true) {
    const Node* next = nullptr;
    if (!prompt.empty()) {
      if (const auto found = node->children.find(prompt.front()); found != node->children.end())
        next = found->second.get();
    }
    if (depth >= at_least) {  // what leaves the prompt's path here has `depth` tokens in common
      for (const SeqId seq : node->ends) out.push_back({seq, depth});
      for (const auto& [token, child] : node->children) {
        if (child.get() != next) collect(*child, depth, out);
      }
    }
    if (next == nullptr) break;
    const Pos common = common_prefix(next->edge, prompt);
    depth += common;
    if (static_cast<std::size_t>(common) < next->edge.size()) {
      if (depth >= at_least) collect(*next, depth, out);
      break;
    }
    prompt = prompt.subspan(static_cast<std::size_t>(common));
    node = next;
  }
  std::sort(out.begin(), out.end(),
            [](const Match& a, const Match& b) { return a.length != b.length ? a.length > b.length : a.seq < b.seq; });
  return out;
}

std::string PrefixTree::check_integrity() const {
  std::size_t ends = 0;
  std::vector<const Node*> open;
  for (const auto& [salt, root] : roots_) {
    if (root->children.empty() && root->ends.empty()) return "prefix tree: an empty root";
    open.push_back(root.get());
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    ends += node->ends.size();
    for (const SeqId seq : node->ends) {
      const auto it = streams_.find(seq);
      if (it == streams_.end() || it->second.node != node) return "prefix tree: a stream ends elsewhere";
      Pos depth = 0;
      for (const Node* n = node; n != nullptr; n = n->parent) depth += static_cast<Pos>(n->edge.size());
      if (depth != it->second.length) return "prefix tree: the length of sequence " + std::to_string(seq) + " is wrong";
    }
    if (node->parent != nullptr) {
      if (node->edge.empty()) return "prefix tree: an empty edge";
      if (node->ends.empty() && node->children.size() < 2) return "prefix tree: a node without a purpose";
    }
    for (const auto& [token, child] : node->children) {
      if (child->parent != node || child->edge.empty() || child->edge.front() != token)
        return "prefix tree: a broken link";
      open.push_back(child.get());
    }
  }
  if (ends != streams_.size()) return "prefix tree: a stream without an end";
  return {};
}

}  // namespace roost::kv
