#include "gui/editor/scenario_editor.hpp"

#include "gui/editor/changes_model.hpp"
#include "gui/editor/fields_model.hpp"
#include "gui/editor/presets.hpp"
#include "gui/editor/scenario_text.hpp"
#include "gui/parts/plain_table.hpp"

#include <QApplication>
#include <QComboBox>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QPainter>
#include <QSpinBox>
#include <QTableView>
#include <QTabWidget>
#include <QToolButton>
#include <QTreeView>
#include <QVBoxLayout>

#include <cmath>
#include <limits>

namespace orrery {
namespace {

constexpr const char* edit_number = "orrery_edit";

FieldsModel& fields_of(const QModelIndex& index) { return *static_cast<FieldsModel*>(const_cast<QAbstractItemModel*>(index.model())); }
const FieldSpec& spec_of(const QModelIndex& index) { return static_cast<const FieldsModel*>(index.model())->spec(index); }

QStringList names(const FieldSpec& spec) {
    QStringList out;
    for (const std::string& choice : spec.choices) out << QString::fromStdString(choice);
    return out;
}

// Numbers that can be stepped; left empty: the default.
class IntegerBox : public QSpinBox {
  public:
    explicit IntegerBox(QWidget* parent) : QSpinBox(parent) {
        setGroupSeparatorShown(false);
        connect(lineEdit(), &QLineEdit::textEdited, this, [this](const QString& text) { empty_ = text.trimmed().isEmpty(); });
    }
    bool isEmpty() const { return empty_; }
    void show(const QString& text) {
        bool number = false;
        const int value = text.toInt(&number);
        empty_ = !number;
        const QSignalBlocker quiet(this);
        if (number && this->value() != value) setValue(value);
        if (empty_) lineEdit()->clear();
    }
    void stepBy(int steps) override {
        empty_ = false;
        QSpinBox::stepBy(steps);
    }

  protected:
    QValidator::State validate(QString& text, int& at) const override {
        return text.trimmed().isEmpty() ? QValidator::Acceptable : QSpinBox::validate(text, at);
    }
    int valueFromText(const QString& text) const override { return text.trimmed().isEmpty() ? value() : QSpinBox::valueFromText(text); }
    QString textFromValue(int value) const override { return empty_ ? QString{} : QSpinBox::textFromValue(value); }

  private:
    bool empty_ = false;
};

bool has_focus(const QWidget& editor) {
    const QWidget* focus = QApplication::focusWidget();
    return focus && (focus == &editor || editor.isAncestorOf(focus));
}

} // namespace

QWidget* FieldDelegate::createEditor(QWidget* parent, const QStyleOptionViewItem&, const QModelIndex& index) const {
    const FieldSpec& spec = spec_of(index);
    auto* self = const_cast<FieldDelegate*>(this);
    // While it is open. An action that closes an editor takes the focus from it first, and commits by itself.
    const auto commit = [self](QWidget* editor) {
        return [self, editor] {
            if (has_focus(*editor)) Q_EMIT self->commitData(editor);
        };
    };
    const int number = fields_of(index).beginEdit();
    const auto numbered = [number](QWidget* editor) {
        editor->setProperty(edit_number, number);
        return editor;
    };
    if (!spec.choices.empty() || spec.type == FieldType::boolean) {
        auto* box = new QComboBox(parent);
        const bool closed = spec.type == FieldType::choice || spec.type == FieldType::boolean;
        box->setEditable(!closed);
        if (closed) box->addItem(tr("(default)"), QString());
        for (const QString& name :
             spec.type == FieldType::boolean ? QStringList{QStringLiteral("true"), QStringLiteral("false")} : names(spec))
            box->addItem(name, name);
        connect(box, &QComboBox::activated, self, commit(box));
        return numbered(box);
    }
    if (spec.type == FieldType::integer) {
        auto* box = new IntegerBox(parent);
        const double most = std::numeric_limits<int>::max();
        box->setRange(static_cast<int>(std::max(spec.minimum, -most)), static_cast<int>(std::min(spec.maximum, most)));
        connect(box, &QSpinBox::valueChanged, self, commit(box));
        return numbered(box);
    }
    return numbered(new QLineEdit(parent));
}

void FieldDelegate::destroyEditor(QWidget* editor, const QModelIndex& index) const {
    if (index.isValid()) fields_of(index).endEdit(editor->property(edit_number).toInt());
    QStyledItemDelegate::destroyEditor(editor, index);
}

void FieldDelegate::setEditorData(QWidget* editor, const QModelIndex& index) const {
    const QVariant value = index.data(Qt::EditRole);
    const QSignalBlocker quiet(editor);
    if (auto* box = qobject_cast<QComboBox*>(editor)) {
        const QString text =
            value.userType() == QMetaType::Bool ? (value.toBool() ? QStringLiteral("true") : QStringLiteral("false")) : value.toString();
        if (box->isEditable())
            box->setEditText(text);
        else if (!index.data(FieldsModel::GivenRole).toBool())
            box->setCurrentIndex(0);
        else if (const int at = box->findData(text); at >= 0)
            box->setCurrentIndex(at);
        else if (box->currentData().toString() != text) // a word that is none of them
            box->insertItem(1, text, text), box->setCurrentIndex(1);
    } else if (auto* spin = dynamic_cast<IntegerBox*>(editor)) {
        if (!has_focus(*spin) || !spin->isEmpty()) spin->show(value.toString());
    } else if (auto* line = qobject_cast<QLineEdit*>(editor)) {
        if (line->text() != value.toString()) line->setText(value.toString());
    }
}

void FieldDelegate::setModelData(QWidget* editor, QAbstractItemModel* model, const QModelIndex& index) const {
    if (auto* box = qobject_cast<QComboBox*>(editor)) {
        const QString text = box->isEditable() ? box->currentText() : box->currentData().toString();
        if (spec_of(index).type == FieldType::boolean && !text.isEmpty())
            model->setData(index, text == QLatin1String("true"));
        else
            model->setData(index, text);
    } else if (auto* spin = dynamic_cast<IntegerBox*>(editor)) {
        const bool given = index.data(FieldsModel::GivenRole).toBool();
        if (spin->isEmpty()) {
            if (given) model->setData(index, QString());
            return;
        }
        const bool untouched = !given && spin->value() == std::max(spin->minimum(), index.data(Qt::EditRole).toInt());
        if (!untouched) model->setData(index, QString::number(spin->value()));
    } else if (auto* line = qobject_cast<QLineEdit*>(editor)) {
        model->setData(index, line->text());
    }
}

// A drop-down is seen to be one before it is opened.
void FieldDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
    QStyledItemDelegate::paint(painter, option, index);
    const FieldSpec& spec = spec_of(index);
    const bool drops = index.column() == FieldsModel::ValueColumn && (!spec.choices.empty() || spec.type == FieldType::boolean) &&
                       index.flags().testFlag(Qt::ItemIsEditable);
    if (!drops) return;
    QStyleOption arrow;
    arrow.rect = QRect(option.rect.right() - 14, option.rect.center().y() - 4, 9, 9);
    arrow.palette = option.palette;
    arrow.state = QStyle::State_Enabled;
    QApplication::style()->drawPrimitive(QStyle::PE_IndicatorArrowDown, &arrow, painter);
}

QSize FieldDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
    return {QStyledItemDelegate::sizeHint(option, index).width(), option.fontMetrics.height() + 10};
}

ScenarioEditor::ScenarioEditor(RunStore& store, ViewState& state, Documents& documents, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), documents_(documents), fields_(new FieldsModel(this)),
      changes_(new ChangesModel(this)), tabs_(new QTabWidget), form_(new QTreeView), text_(new ScenarioText), verdict_(new QLabel),
      problems_(new QListWidget) {
    form_->setModel(fields_);
    form_->setItemDelegate(new FieldDelegate(form_));
    form_->setEditTriggers(QAbstractItemView::EditKeyPressed | QAbstractItemView::AnyKeyPressed);
    connect(form_, &QTreeView::clicked, this, [this](const QModelIndex& index) {
        if (!index.flags().testFlag(Qt::ItemIsEditable)) return;
        form_->edit(index);
        if (auto* box = qobject_cast<QComboBox*>(form_->indexWidget(index)); box && !box->isEditable()) box->showPopup();
    });
    form_->setAlternatingRowColors(true);
    form_->setContextMenuPolicy(Qt::CustomContextMenu);
    form_->setAccessibleName(tr("Fields of the scenario"));
    form_->header()->setStretchLastSection(true);
    form_->setColumnWidth(FieldsModel::FieldColumn, 190);
    form_->setColumnWidth(FieldsModel::ValueColumn, 150);
    form_->setUniformRowHeights(true);
    form_->installEventFilter(this);
    for (const char* section : {"/training", "/strategy"}) form_->expand(fields_->indexOf(section));
    auto* table = new QTableView;
    table->setModel(changes_);
    table->setAccessibleName(tr("Fields that differ from the baseline"));
    table->verticalHeader()->hide();
    table->horizontalHeader()->setStretchLastSection(true);
    table->setColumnWidth(0, 220);
    table->setColumnWidth(1, 120);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    copies_rows(*table);
    tabs_->addTab(form_, tr("Form"));
    tabs_->addTab(text_, tr("Text"));
    tabs_->addTab(table, tr("Against the baseline"));
    tabs_->setDocumentMode(true);
    tabs_->setCornerWidget(presetsButton());
    verdict_->setWordWrap(true);
    verdict_->setContentsMargins(6, 3, 6, 3);
    problems_->setWordWrap(true);
    problems_->setMaximumHeight(130);
    problems_->setAccessibleName(tr("Problems of the scenario"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(tabs_, 1);
    layout->addWidget(verdict_);
    layout->addWidget(problems_);
    setFocusProxy(tabs_);

    connect(form_, &QWidget::customContextMenuRequested, this, &ScenarioEditor::formMenu);
    connect(problems_, &QListWidget::itemClicked, this,
            [this](QListWidgetItem* item) { jumpTo(item->data(Qt::UserRole).toString().toStdString()); });
    connect(problems_, &QListWidget::itemActivated, this,
            [this](QListWidgetItem* item) { jumpTo(item->data(Qt::UserRole).toString().toStdString()); });
    connect(table, &QTableView::activated, this, [this](const QModelIndex& index) {
        showTab(FormTab);
        jumpTo(changes_->change(index.row()).pointer);
    });
    connect(&documents_, &Documents::currentChanged, this, &ScenarioEditor::show);
    connect(&documents_, &Documents::problemsChanged, this, &ScenarioEditor::refresh);
    connect(&state_, &ViewState::baselineChanged, this, &ScenarioEditor::refresh);
    show(documents_.current());
}

QWidget* ScenarioEditor::presetsButton() {
    auto* button = new QToolButton;
    button->setText(tr("Presets"));
    button->setToolTip(tr("Strategies to begin with"));
    button->setAccessibleName(tr("Presets of the strategy"));
    button->setPopupMode(QToolButton::InstantPopup);
    auto* menu = new QMenu(button);
    menu->setToolTipsVisible(true);
    for (const Preset& preset : presets())
        menu->addAction(preset.title, this, [this, id = preset.id] { documents_.applyPreset(id); })->setToolTip(preset.tip);
    button->setMenu(menu);
    connect(&documents_, &Documents::currentChanged, button, [this, button] { button->setEnabled(documents_.current() != nullptr); });
    button->setEnabled(documents_.current() != nullptr);
    return button;
}

void ScenarioEditor::showTab(Tab tab) { tabs_->setCurrentIndex(tab); }

void ScenarioEditor::show(ScenarioDocument* document) {
    fields_->setDocument(document);
    text_->setDocument(document);
    refresh();
}

void ScenarioEditor::refresh() {
    const ScenarioDocument* document = documents_.current();
    ScenarioDocument* base = state_.baseline() != documents_.currentRun() ? documents_.of(state_.baseline()) : nullptr;
    changes_->setTexts(document && base ? base->text() : std::string{}, document ? document->text() : std::string{});
    tabs_->setTabText(ChangesTab,
                      changes_->rowCount() > 0 ? tr("Against the baseline (%1)").arg(changes_->rowCount()) : tr("Against the baseline"));
    problems_->clear();
    if (document)
        for (const Problem& p : document->parsed().problems) {
            auto* item = new QListWidgetItem(QString::fromStdString(p.where.empty() ? p.what : p.where + ": " + p.what), problems_);
            item->setData(Qt::UserRole, QString::fromStdString(p.where));
        }
    problems_->setVisible(problems_->count() > 0);
    if (!document)
        verdict_->setText(state_.currentRun() == 0 ? tr("Open a scenario, or make a new one (Ctrl+N)")
                                                   : tr("The current run has no scenario: it is only a trace"));
    else if (problems_->count() > 0)
        verdict_->setText(tr("\u26a0 %n problem(s): the figures shown are of the text before", "", problems_->count()));
    else if (!document->parsed().scenario->notes.empty())
        verdict_->setText(tr("Note: %1").arg(QString::fromStdString(document->parsed().scenario->notes.front())));
    else
        verdict_->setText(document->parsed().scenario->world_size() == 1
                              ? tr("\u2713 correct: 1 device")
                              : tr("\u2713 correct: %1 devices").arg(document->parsed().scenario->world_size()));
}

void ScenarioEditor::jumpTo(const std::string& pointer) {
    const QModelIndex field = fields_->indexOf(pointer, FieldsModel::ValueColumn);
    if (tabs_->currentIndex() == TextTab || !field.isValid()) {
        showTab(TextTab);
        text_->jumpTo(pointer);
        return;
    }
    showTab(FormTab);
    for (QModelIndex up = field.parent(); up.isValid(); up = up.parent()) form_->expand(up);
    form_->setFocus();
    form_->setCurrentIndex(field);
    form_->scrollTo(field);
}

bool ScenarioEditor::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Delete && form_->currentIndex().isValid())
        return fields_->reset(form_->currentIndex());
    return QWidget::eventFilter(watched, event);
}

void ScenarioEditor::formMenu(const QPoint& at) {
    const QModelIndex index = form_->indexAt(at);
    if (!index.isValid()) return;
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    QAction* leave_out = menu->addAction(tr("Clear: the default holds (Delete)"), this,
                                         [this, index = QPersistentModelIndex(index)] { fields_->reset(index); });
    leave_out->setEnabled(index.data(FieldsModel::GivenRole).toBool());
    menu->addAction(tr("Show in the text"), this, [this, pointer = fields_->spec(index).pointer] {
        showTab(TextTab);
        text_->jumpTo(pointer);
    });
    menu->popup(form_->viewport()->mapToGlobal(at));
}

} // namespace orrery
