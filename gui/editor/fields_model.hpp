// A scenario's fields as a tree for a form: field, value, and what stands behind it (a default and its source, or what is wrong).
// Values are the document's; editing one edits the document.
#pragma once

#include "gui/editor/field_specs.hpp"
#include "gui/editor/json_place.hpp"

#include <QAbstractItemModel>

#include <map>
#include <memory>
#include <string>

namespace orrery {

class ScenarioDocument;

class FieldsModel : public QAbstractItemModel {
    Q_OBJECT
  public:
    enum Column { FieldColumn, ValueColumn, NoteColumn, ColumnCount };
    enum Role { PointerRole = Qt::UserRole + 1, GivenRole, ProblemRole, ProblemsInsideRole }; // the last: how many, of a section

    explicit FieldsModel(QObject* parent = nullptr);
    void setDocument(ScenarioDocument* document); // null: every field is empty and cannot be edited

    const FieldSpec& spec(const QModelIndex& index) const;
    QModelIndex indexOf(const std::string& pointer, int column = FieldColumn) const; // invalid: no such field
    // Forgets the value in the document: the default holds again.
    bool reset(const QModelIndex& index);
    // An editor opens: what is changed until it closes is one step to undo. Gives the number to close it with.
    int beginEdit() { return edit_ = ++edits_; }
    void endEdit(int number) {
        if (edit_ == number) edit_ = 0;
    }

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& child) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;

  private:
    struct Node {
        const FieldSpec* spec;
        Node* parent;
        int row;
        std::vector<std::unique_ptr<Node>> children;
    };
    static std::unique_ptr<Node> nodes(const FieldSpec& spec, Node* parent, int row);
    Node* node(const QModelIndex& index) const;
    void refresh();
    QString given(const FieldSpec& spec) const;    // the value's text in the document; empty: left out
    QString fallback(const FieldSpec& spec) const; // what holds where it is left out
    QString noted(const FieldSpec& spec) const;    // its value, without where it is from
    bool usualHolds(const FieldSpec& spec) const;  // no preset and no absent section decides
    QString note(const FieldSpec& spec) const;
    std::vector<std::string> problems(const FieldSpec& spec) const;
    int problemsInside(const FieldSpec& spec) const; // at the fields of a section
    QString tip(const FieldSpec& spec) const;
    QVariant valueData(const FieldSpec& spec, int role) const;
    QVariant edited(const FieldSpec& spec) const;

    ScenarioDocument* document_ = nullptr;
    FieldSpec root_spec_;
    std::unique_ptr<Node> root_;
    JsonPlaces places_;
    int edit_ = 0, edits_ = 0;                         // the one that is open, 0: none; how many there were
    std::multimap<std::string, std::string> problems_; // by pointer of the nearest field
};

// The JSON text of what a user typed for a field: numbers and words as they are, anything else quoted.
std::string json_of(const FieldSpec& spec, const QVariant& value);

} // namespace orrery
